import pytest
from jobs import job_files, job_patient, patient_of
from mending import gone

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.memory.cache_flag_conflict import CacheFlagConflict
from gpudoctor_rules.memory.cache_flag_conflict import CacheFlagConflictRule

EXPECTED = {
    "configs-sick_transformers": 5,
    "configs-sick_sections": 3,
    "source-sick_loaded_with_cache": 3,
    "source-sick_config_flag": 7,
    "source-sick_forward": 8,
}
SICK, HEALTHY = dict(job_files("MEM010", "sick")), dict(job_files("MEM010", "healthy"))


def test_every_job_is_named() -> None:
    assert set(SICK) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(SICK))
def test_sick_jobs(name: str) -> None:
    [finding] = examine(CacheFlagConflict, job_patient(SICK[name]))
    assert finding.evidence[0].line == EXPECTED[name]
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_healthy_jobs(name: str) -> None:
    assert examine(CacheFlagConflict, job_patient(HEALTHY[name])) == []


def test_healthy_switched_off_again() -> None:
    script = """
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=True)
        model.config.use_cache = False
        Trainer(model=model, args=TrainingArguments("o", gradient_checkpointing=True)).train()
        """
    assert examine(CacheFlagConflict, patient_of({"train.py": script})) == []


def test_skipped_without_source_and_configs() -> None:
    with pytest.raises(Unavailable):
        examine(CacheFlagConflict, make_patient())


@pytest.mark.parametrize("name", sorted(set(SICK) - {"configs-sick_sections"}))
def test_the_mend_cures(name: str) -> None:
    [path] = SICK[name]
    assert gone("MEM010", path.read_text("utf-8"), path.name)


def test_the_remedy_names_the_flag() -> None:
    patient = job_patient(SICK["configs-sick_sections"])
    [finding] = examine(CacheFlagConflict, patient)
    [remedy] = prescribe(CacheFlagConflictRule, finding, patient)
    assert remedy.title == "use_cache: false"
