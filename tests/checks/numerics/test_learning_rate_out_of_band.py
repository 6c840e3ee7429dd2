import math

import pytest
from jobs import job_files, job_patient, patient_of
from mending import gone
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.learning_rate_out_of_band import LearningRateOutOfBand
from gpudoctor_rules.numerics.advice import ADVICE
from gpudoctor_rules.numerics.learning_rate_out_of_band import LearningRateOutOfBandRule

NOTE, WARNING = Severity.NOTE, Severity.WARNING
EXPECTED = {
    "source-sick_adam": (WARNING, 4),
    "source-sick_argparse": (WARNING, 9),
    "source-sick_lora": (NOTE, 5),
    "source-sick_full": (NOTE, 4),
    "configs-sick_transformers": (WARNING, 5),
    "configs-sick_sections": (WARNING, 6),
    "configs-sick_llama_factory": (NOTE, 6),
}
SICK, HEALTHY = dict(job_files("NUM009", "sick")), dict(job_files("NUM009", "healthy"))


def test_every_job_is_named() -> None:
    assert set(SICK) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(SICK))
def test_sick_jobs(name: str) -> None:
    [finding] = examine(LearningRateOutOfBand, job_patient(SICK[name]))
    assert (finding.severity, finding.evidence[0].line) == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_healthy_jobs(name: str) -> None:
    assert examine(LearningRateOutOfBand, job_patient(HEALTHY[name])) == []


ADAM = "import torch\nm = torch.nn.Linear(1, 1)\no = torch.optim.Adam(m.parameters(), lr={})\n"


@pytest.mark.parametrize("rate", ["0.011", "1", "9.9e-8"])
def test_sick_just_outside(rate: str) -> None:
    assert len(examine(LearningRateOutOfBand, patient_of({"train.py": ADAM.format(rate)}))) == 1


@pytest.mark.parametrize("rate", ["0.01", "1e-7", "RATE", "3e-4 * scale"])
def test_healthy_just_inside(rate: str) -> None:
    assert examine(LearningRateOutOfBand, patient_of({"train.py": ADAM.format(rate)})) == []


@pytest.mark.parametrize(("more", "found"), [("", 1), (", momentum=0.9", 0)])
def test_a_class_that_is_a_default_only_is_not_judged(more: str, found: int) -> None:
    text = f"""
    import torch
    def train(model, kind=torch.optim.Adam, rate: float = 0.5):
        return kind(model.parameters(), lr=rate{more})
    train(torch.nn.Linear(900, 900))
    """
    assert len(examine(LearningRateOutOfBand, script_patient(text))) == found


def test_sick_at_the_users_threshold() -> None:
    patient = patient_of({"train.py": ADAM.format("0.005")})
    assert len(examine(LearningRateOutOfBand, patient, adam_high=0.001)) == 1


def test_skipped_without_source_and_configs() -> None:
    with pytest.raises(Unavailable):
        examine(LearningRateOutOfBand, make_patient())


@pytest.mark.parametrize(
    "name",
    ["source-sick_adam", "source-sick_lora", "source-sick_full", "configs-sick_transformers",
     "configs-sick_sections"],
)  # fmt: skip
def test_the_mend_cures(name: str) -> None:
    [path] = SICK[name]
    assert gone("NUM009", path.read_text("utf-8"), path.name)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("source-sick_lora", "1e-4"),
        ("source-sick_full", "2e-5"),
        ("source-sick_adam", "1e-3"),
        ("source-sick_argparse", "1e-4"),
    ],
)
def test_the_rule_names_the_rate(name: str, rate: str) -> None:
    patient = job_patient(SICK[name])
    [finding] = examine(LearningRateOutOfBand, patient)
    [remedy] = prescribe((LearningRateOutOfBandRule, *ADVICE), finding, patient)
    assert remedy.title.endswith(rate)


def of_run(rate, n=400, name="SGD", optimizers=1, **columns):
    """The findings on a run whose step i was made with `rate(i)`."""
    made = [
        record("optimizer", name=name, groups=1, lr=rate(0), path="/job/train.py", line=8 + number)
        for number in range(optimizers)
    ]
    process = make_process(make_steps(n, lr=rate, **columns), records=made)
    return examine(LearningRateOutOfBand, make_patient(recording=make_recording(process)))


@pytest.mark.parametrize("known", [1, 7])
def test_sick_a_schedule_of_epochs_that_is_stepped_per_batch(known):
    """Halved every ten steps; the rate is read in every step, or in every seventh."""
    [finding] = of_run(lambda i: 0.1 * 0.5 ** (i // 10) if i % known == 0 else math.nan)
    assert finding.severity is Severity.WARNING and finding.detail.cure == "spent"
    assert "fell from 0.1 to 1.8e-13" in finding.message
    since = 200 if known == 1 else 203
    assert f"below 1e-07 since step {since}, in {400 - since} of 400 steps" in finding.message
    assert finding.cost.breaks  # before whatever costs time
    [remedy] = prescribe((LearningRateOutOfBandRule, *ADVICE), finding, make_patient())
    assert "as long as the training" in remedy.title


@pytest.mark.parametrize("optimizers", [1, 3])
def test_sick_a_schedule_that_goes_on_below_zero(optimizers):
    [finding] = of_run(lambda i: 2e-4 * (1 - i / 100), n=140, name="Adam", optimizers=optimizers)
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "negative in 39 of 140 steps, from step 101 on. It reaches -7.8e-05" in finding.message
    [remedy] = prescribe((LearningRateOutOfBandRule, *ADVICE), finding, make_patient())
    assert "as long as the training" in remedy.title


def test_the_words_of_a_rate_that_was_too_high_in_a_run():
    [finding] = of_run(lambda i: 1.0, name="Adam")
    assert finding.message == "Adam trained with a rate of 1; the usual maximum is 0.01."


def test_sick_rates_of_other_optimizers_in_a_run():
    [finding] = of_run(lambda i: 0.5, name="RMSprop")
    assert finding.message == "RMSprop trained with a rate of 0.5; the usual maximum is 0.01."
    [finding] = of_run(lambda i: 40.0, loss=lambda i: 0.7 if i == 0 else 1e6 * 0.96**i + 8)
    assert finding.severity is Severity.WARNING
    assert finding.message == "SGD trained with a rate of 40; the usual maximum is 3."
    [remedy] = prescribe((LearningRateOutOfBandRule, *ADVICE), finding, make_patient())
    assert remedy.title == "lr=0.1"


def test_healthy_rates_of_other_optimizers_in_a_run():
    assert of_run(lambda i: 0.01, name="RMSprop") == []
    assert of_run(lambda i: 2.0, loss=lambda i: 0.7 + i) == []
    assert of_run(lambda i: 40.0, loss=lambda i: 1e-4 * 0.99**i) == []  # a small loss has a large rate
    assert of_run(lambda i: 1.0, name="Adadelta") == []


def test_several_optimizers_of_one_class():
    [finding] = of_run(lambda i: 0.1 * 0.5 ** (i // 10), optimizers=2)
    assert finding.detail.cure == "spent"
    assert of_run(lambda i: 0.5 if i % 2 else 1e-9, name="Adam", optimizers=2) == []


HEALTHY_SCHEDULES = {
    "cosine to zero": lambda i: 0.0005 * (1 + math.cos(math.pi * i / 2000)),
    "square to zero": lambda i: 1e-3 * (1 - i / 2000) ** 2,
    "restarts": lambda i: 1e-3 * (1 - i % 500 / 500),
    "warm-up from zero": lambda i: 1e-3 * min(1.0, i / 1000),
    "cool-down of a hundred": lambda i: 1e-3 if i < 1900 else 1e-9,
}


@pytest.mark.parametrize("name", HEALTHY_SCHEDULES)
def test_healthy_schedules_end_low(name):
    assert of_run(HEALTHY_SCHEDULES[name], n=2000) == []


def test_sick_a_rate_that_was_never_high_enough_breaks_the_run():
    [finding] = of_run(lambda i: 1e-9)
    assert finding.detail.cure == "low" and finding.cost.breaks


SEQUENCE = """
    import torch
    from torch import nn

    class Speller(nn.Module):
        def __init__(self, letters={letters}, hidden={hidden}):
            super().__init__()
            self.table = nn.Embedding(letters, hidden)
            self.cell = nn.GRU(hidden, hidden, batch_first=True)
            self.out = nn.Linear(hidden, letters)

        def forward(self, x):
            return self.out(self.cell(self.table(x))[0])

    speller = Speller()
    words = torch.load("words.pt")
    optimizer = torch.optim.{optimizer}(speller.parameters(), lr={rate})
    for _ in range(200):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(speller(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("letters", "hidden", "optimizer", "rate", "said"),
    [
        (8, 8, "Adam", 0.1, 0),
        (8, 8, "AdamW", 0.05, 0),
        (8, 8, "Adam", 1.0, 1),
        (8, 8, "SGD", 1e-9, 1),
        (26, 64, "Adam", 0.1, 1),
        ("len(open('letters.txt').read())", 8, "Adam", 0.1, 1),
    ],
)
def test_a_network_of_some_hundred_weights_learns_with_a_large_rate(letters, hidden, optimizer, rate, said):
    text = SEQUENCE.format(letters=letters, hidden=hidden, optimizer=optimizer, rate=rate)
    assert len(examine(LearningRateOutOfBand, script_patient(text))) == said


PAIRS = """
    import torch
    model, fixed = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr={rate})
    for batch in torch.utils.data.DataLoader([]):
        better, worse = model(batch["{better}"]), model(batch["{worse}"])
        optimizer.zero_grad()
        (-torch.nn.functional.logsigmoid(better - worse)).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("better", "worse", "rate", "found"),
    [
        ("chosen", "rejected", "5e-8", 0),
        ("ids_preferred", "ids_dispreferred", "2e-8", 0),
        ("chosen", "rejected", "5e-9", 1),  # too small even for that
        ("image", "label", "5e-8", 1),
        ("chosen", "label", "5e-8", 1),
    ],
)
def test_a_training_on_preferences_has_a_band_that_begins_lower(better, worse, rate, found):
    text = PAIRS.format(better=better, worse=worse, rate=rate)
    findings = examine(LearningRateOutOfBand, script_patient(text))
    assert len(findings) == found
    assert all("below 1e-08" in item.message for item in findings if better != "image" and worse != "label")


@pytest.mark.parametrize(("trainer", "found"), [("DPO", 0), ("SFT", 1)], ids=["healthy", "sick"])
def test_the_trainer_says_what_is_trained(trainer, found):
    text = f"""
        from trl import {trainer}Config, {trainer}Trainer
        args = {trainer}Config(output_dir="out", learning_rate=5e-8)
        {trainer}Trainer(model="some/model", args=args).train()
    """
    assert len(examine(LearningRateOutOfBand, script_patient(text))) == found


@pytest.mark.parametrize(("stage", "found"), [("dpo", 0), ("sft", 1)], ids=["healthy", "sick"])
def test_the_config_says_what_is_trained(stage, found):
    text = f"stage: {stage}\nfinetuning_type: lora\ntemplate: llama3\nmodel_name_or_path: some/model\nlearning_rate: 5.0e-8\n"
    assert len(examine(LearningRateOutOfBand, patient_of({"train.yaml": text}))) == found
