import pytest
from configs import configs
from mending import gone, mended
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.no_checkpoint import NoCheckpoint
from gpudoctor_rules.loop import no_checkpoint

TEXT = "#!/bin/bash\n#SBATCH --time=04:00:00\nsrun python train.py\n"
LIMITED = Job(profile=Profile.SLURM, time_limit=4 * 3600.0, script_path="job.sbatch", script_text=TEXT)
PREEMPTED = Job(profile=Profile.SLURM, preemptible=True, script_path="job.sbatch", script_text="#SBATCH --requeue\n")
SHORT = Job(profile=Profile.SLURM, time_limit=600.0, script_path="job.sbatch", script_text="#SBATCH --time=10\n")

CONFIG = """
training:
  max_steps: 100000
  batch_size: 8
  learning_rate: 1e-4
data:
  num_workers: 3
"""
HOW = {
    "sick_nothing": ("nothing", Severity.WARNING),
    "sick_at_the_end": ("at the end", Severity.WARNING),
    "sick_weights_only": ("weights", Severity.WARNING),
    "sick_trainer_off": ("nothing", Severity.WARNING),
}


def sick(name):
    return next(path for path in sick_scripts("LOOP009") if path.stem == name)


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP009")} == set(HOW)


@pytest.mark.parametrize("name", sorted(HOW))
def test_sick_under_a_time_limit(name):
    [finding] = examine(NoCheckpoint, script_patient(sick(name), job=LIMITED))
    assert (finding.detail.how, finding.severity) == HOW[name]
    assert "4 h" in finding.message
    assert finding.cost.breaks is None  # a job that ends in time loses nothing
    assert any(getattr(item, "line", None) == 2 for item in finding.evidence)


@pytest.mark.parametrize("name", ["sick_nothing", "sick_weights_only"])
def test_sick_when_preemptible(name):
    [finding] = examine(NoCheckpoint, script_patient(sick(name), job=PREEMPTED))
    assert finding.severity is Severity.WARNING


def test_sick_by_declared_steps():
    [finding] = examine(NoCheckpoint, script_patient(sick("sick_nothing"), configs=configs(CONFIG)))
    assert finding.severity is Severity.WARNING
    [finding] = examine(NoCheckpoint, script_patient(sick("sick_trainer_off")))
    assert finding.severity is Severity.WARNING
    text = (
        sick("sick_nothing")
        .read_text()
        .replace("for x in loader", "for x in range(1_000_000)")
        .replace("x.cuda()", "batch()")
    )
    [finding] = examine(NoCheckpoint, script_patient(text))
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize("name", ["sick_at_the_end", "sick_weights_only"])
def test_healthy_without_a_word_on_its_length(name):
    assert examine(NoCheckpoint, script_patient(sick(name))) == []
    assert examine(NoCheckpoint, script_patient(sick(name), job=SHORT)) == []


def test_healthy_when_the_job_launches_another_program():
    job = Job(
        profile=Profile.SLURM, time_limit=9e4, script_path="j", launches=(launch("other.py"), launch("evaluate.py"))
    )
    source = script_patient(sick("sick_nothing")).source
    assert source.trains
    [finding] = examine(NoCheckpoint, script_patient(sick("sick_nothing"), job=job))  # it is the only one
    assert finding.severity is Severity.WARNING


def launch(script):
    return Launch(launcher="python", script=script, module=None, arguments=(), ranks_per_node=None, nodes=None)


@pytest.mark.parametrize("path", healthy_scripts("LOOP009"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(NoCheckpoint, script_patient(path, job=LIMITED)) == []


def test_the_rule_gives_an_interval():
    patient = script_patient(sick("sick_nothing"), job=LIMITED)
    [remedy] = prescribe(no_checkpoint, examine(NoCheckpoint, patient)[0], patient)
    assert "24 minutes" in remedy.title  # a tenth of four hours
    assert remedy.applicability is Applicability.DISPLAY_ONLY
    assert any("optimizer.state_dict()" in step for step in remedy.steps)


def test_the_engine_is_switched_on_again():
    text = sick("sick_trainer_off").read_text()
    assert gone("LOOP009", text)
    assert 'save_strategy="steps"' in mended(text, select="LOOP009")


EPOCHS = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default={default})
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    def one_epoch():
        for x in {batches}:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    for epoch in range({epochs}):
        one_epoch()
        {inside}
    {after}
"""


def long_run(epochs="args.epochs", default="200", batches="loader", inside="pass", after="pass"):
    text = EPOCHS.format(epochs=epochs, default=default, batches=batches, inside=inside, after=after)
    return [(item.message, item.severity) for item in examine(NoCheckpoint, script_patient(text))]


def test_sick_by_the_epochs_of_the_source():
    says = "The training runs 200 epochs, and the program never saves a checkpoint."
    assert long_run() == [(says, Severity.NOTE)]
    assert long_run(epochs="1, args.epochs + 1") == [(says, Severity.NOTE)]
    [(message, _)] = long_run(after="torch.save(model.state_dict(), 'last.pt')")
    assert message.endswith("saves only when training ends.")


@pytest.mark.parametrize(
    "change",
    [
        {"default": "20"},
        {"default": "None"},
        {"batches": "[torch.randn(2, 8)]"},
        {"batches": "range(30)"},
        {"epochs": "first, args.epochs", "default": "10"},
        {"inside": "torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'x.pt')"},
        {"inside": "torch.save(model.state_dict(), 'x.pt')"},
    ],
)
def test_healthy_epochs(change):
    assert long_run(**change) == []


@pytest.mark.parametrize(
    ("period", "findings"), [("if (epoch + 1) % 5 == 0:", 0), ("if epoch == 0 or better():", 0), ("while True:", 0)]
)
def test_healthy_a_save_behind_the_steps_of_each_epoch(period, findings):
    """It stands behind a loop of steps, in a function that every epoch calls."""
    text = EPOCHS.format(epochs="200", default="1", batches="loader", inside="pass", after="pass").replace(
        "optimizer.step()\n",
        f"optimizer.step()\n        {period}\n            torch.save(model.state_dict(), f'{{epoch}}.pt')\n",
    )
    assert len(examine(NoCheckpoint, script_patient(text))) == findings


def test_sick_by_epochs_of_known_length():
    text = """
        import torch
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(40):
            for step in range({steps}):
                optimizer.zero_grad()
                model(torch.randn(4, 8)).mean().backward()
                optimizer.step()
    """
    [finding] = examine(NoCheckpoint, script_patient(text.format(steps=500)))
    assert finding.message.startswith("The training runs 40 epochs of 500 steps, and the program never")
    assert examine(NoCheckpoint, script_patient(text.format(steps=100))) == []


RESUMES = """
    import argparse, os, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", default=None)
    parser.add_argument("--weights", default=None)
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1)
    optimizer = {optimizer}
    begin = 0
    if {told}:
        state = torch.load("last.pt")
        model.load_state_dict(state{more})
        {loads}
    for epoch in range(begin, 3):
        for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        torch.save({saved}, "last.pt")
"""
RESUME = {
    "optimizer": "torch.optim.AdamW(model.parameters())", "told": "args.resume", "more": "['model']", "loads": "pass",
    "saved": "{'model': model.state_dict(), 'optimizer': optimizer.state_dict()}",
}  # fmt: skip


def resumed(**parts):
    return examine(NoCheckpoint, script_patient(RESUMES.format(**{**RESUME, **parts})))


@pytest.mark.parametrize(
    ("parts", "severity"),
    [
        ({}, Severity.WARNING),
        ({"told": "os.path.exists('last.pt')"}, Severity.WARNING),
        ({"more": "", "saved": "model.state_dict()"}, Severity.NOTE),
        ({"loads": "begin = state['epoch']"}, Severity.WARNING),
    ],
)
def test_sick_a_resume_that_loads_the_weights_alone(parts, severity):
    [finding] = resumed(**parts)
    assert finding.severity is severity and "AdamW starts with empty state" in finding.message
    patient = script_patient(RESUMES.format(**{**RESUME, **parts}))
    [remedy] = prescribe(no_checkpoint, finding, patient)
    assert "optimizer.load_state_dict" in " ".join(remedy.steps)


@pytest.mark.parametrize(
    "parts",
    [
        {"loads": "optimizer.load_state_dict(state['optimizer'])"},
        {"told": "args.weights"},  # a start from what another program trained
        {"optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)"},  # keeps no state
        {"more": ", strict=False"},
    ],
)
def test_healthy_resumes_and_starts(parts):
    assert resumed(**parts) == []


KEPT = """
    import os, torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    path = "base.pt"
    def train():
        for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    if os.path.exists(path):
        model.load_state_dict(torch.load(path)["model"])
    {other}
        train()
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
        {more}
"""


@pytest.mark.parametrize(
    ("other", "more", "found"),
    [
        ("else:", "", 0),
        ("else:", 'model.load_state_dict(torch.load("best.pt")["model"])', 0),
        ("for epoch in range(3):", "", 1),
    ],
)
def test_a_result_that_is_loaded_instead_of_trained_is_no_resume(other, more, found):
    assert len(examine(NoCheckpoint, script_patient(KEPT.format(other=other, more=more)))) == found
