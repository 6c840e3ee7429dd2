import pytest
from jobs import job_files, job_patient, patient_of
from mending import gone

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.config.quantisation_conflict import QuantisationConflict
from gpudoctor_rules.config import quantisation_conflict

WARNING, ERROR = Severity.WARNING, Severity.ERROR
EXPECTED = {
    "configs-sick_axolotl_full": (ERROR, 2),
    "configs-sick_axolotl_qlora": (ERROR, 6),
    "configs-sick_both": (ERROR, 2),
    "configs-sick_dtype": (WARNING, 3),
    "configs-sick_llama_factory": (ERROR, 3),
    "configs-sick_stage_three": (WARNING, 6),
    "source-sick_both": (ERROR, 3),
    "source-sick_compute_dtype": (WARNING, 10),
    "source-sick_default_dtype": (WARNING, 4),
    "source-sick_full": (ERROR, 4),
}
SICK, HEALTHY = dict(job_files("CFG008", "sick")), dict(job_files("CFG008", "healthy"))


def test_every_job_is_named() -> None:
    assert set(SICK) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(SICK))
def test_sick_jobs(name: str) -> None:
    [finding] = examine(QuantisationConflict, job_patient(SICK[name]))
    assert (finding.severity, finding.evidence[0].line) == EXPECTED[name]
    assert (finding.cost.breaks is not None) == (finding.severity is ERROR)


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_healthy_jobs(name: str) -> None:
    assert examine(QuantisationConflict, job_patient(HEALTHY[name])) == []


STAGED = """
    from transformers import BitsAndBytesConfig, TrainingArguments
    config = BitsAndBytesConfig({bits}, bnb_4bit_compute_dtype="bfloat16"{more})
    args = TrainingArguments("o", bf16=True, deepspeed={{"zero_optimization": {{"stage": {stage}}}}})
    """


@pytest.mark.parametrize(
    ("bits", "more", "stage", "found"),
    [
        ("load_in_4bit=True", "", 3, 1),
        ("load_in_8bit=True", ', bnb_4bit_quant_storage="bfloat16"', 3, 1),
        ("load_in_4bit=True", ', bnb_4bit_quant_storage="bfloat16"', 3, 0),
        ("load_in_4bit=True", "", 2, 0),
    ],
)
def test_sick_and_healthy_stages(bits: str, more: str, stage: int, found: int) -> None:
    patient = patient_of({"train.py": STAGED.format(bits=bits, more=more, stage=stage)})
    assert len(examine(QuantisationConflict, patient)) == found


@pytest.mark.parametrize("flag", ["USE", "args.quantise"])
def test_healthy_behind_a_switch(flag: str) -> None:
    script = f"""
        from transformers import AutoModel, BitsAndBytesConfig, Trainer, TrainingArguments
        config = BitsAndBytesConfig(load_in_4bit={flag}, bnb_4bit_compute_dtype="bfloat16")
        model = AutoModel.from_pretrained("gpt2", quantization_config=config)
        Trainer(model=model, args=TrainingArguments("o")).train()
        """
    assert examine(QuantisationConflict, patient_of({"train.py": script})) == []


def test_skipped_without_source_and_configs() -> None:
    with pytest.raises(Unavailable):
        examine(QuantisationConflict, make_patient())


@pytest.mark.parametrize(
    "name",
    ["configs-sick_axolotl_qlora", "configs-sick_both", "configs-sick_dtype", "configs-sick_llama_factory",
     "source-sick_both", "source-sick_compute_dtype", "source-sick_default_dtype"],
)  # fmt: skip
def test_the_mend_cures(name: str) -> None:
    [path] = SICK[name]
    assert gone("CFG008", path.read_text("utf-8"), path.name)


@pytest.mark.parametrize(("capability", "word"), [((7, 5), "float16"), ((8, 0), "bfloat16")])
def test_the_rule_asks_the_card(capability: tuple[int, int], word: str) -> None:
    cards = [make_gpu(compute_capability=capability)]
    patient = job_patient(SICK["source-sick_default_dtype"], gpus=cards)
    [finding] = examine(QuantisationConflict, patient)
    [remedy] = prescribe(quantisation_conflict, finding, patient)
    assert remedy.title.endswith(f"={word}")
