import pytest
from jobs import job_files, job_patient, patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.config.quantisation_conflict import QuantisationConflict
from gpudoctor_rules.config import quantisation_conflict

WARNING, ERROR = Severity.WARNING, Severity.ERROR
SICK = dict(job_files("CFG008", "sick"))


@pytest.mark.parametrize("flag", ["USE", "args.quantise"])
def test_healthy_behind_a_switch(flag: str) -> None:
    script = f"""
        from transformers import AutoModel, BitsAndBytesConfig, Trainer, TrainingArguments
        config = BitsAndBytesConfig(load_in_4bit={flag}, bnb_4bit_compute_dtype="bfloat16")
        model = AutoModel.from_pretrained("gpt2", quantization_config=config)
        Trainer(model=model, args=TrainingArguments("o")).train()
        """
    assert examine(QuantisationConflict, patient_of({"train.py": script})) == []


@pytest.mark.parametrize(("capability", "word"), [((7, 5), "float16"), ((8, 0), "bfloat16")])
def test_the_rule_asks_the_card(capability: tuple[int, int], word: str) -> None:
    cards = [make_gpu(compute_capability=capability)]
    patient = job_patient(SICK["source-sick_default_dtype"], gpus=cards)
    [finding] = examine(QuantisationConflict, patient)
    [remedy] = prescribe(quantisation_conflict, finding, patient)
    assert remedy.title.endswith(f"={word}")
