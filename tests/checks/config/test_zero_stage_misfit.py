import pytest
from jobs import launch_line, memory_patient
from memory_jobs import config

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.config.zero_stage_misfit import ZeroStageMisfit
from gpudoctor_checks.memory.will_not_fit import WillNotFit
from gpudoctor_rules.config import zero_stage_misfit

SEVEN, SEVENTY = "Qwen/Qwen2.5-7B", "meta-llama/Llama-2-70b-hf"
OFFLOAD = ', "offload_optimizer": {"device": "cpu"}'


def job(model: str, stage: int, *, more: str = "", batch: int = 1, seq: int = 2048) -> dict[str, str]:
    engine = f'{{"zero_optimization": {{"stage": {stage}{more}}}, "bf16": {{"enabled": true}}}}'
    return {"sft.yaml": config(model, batch=batch, seq=seq, more="deepspeed: ds.json"), "ds.json": engine}


@pytest.mark.parametrize(
    ("files", "gpus", "words"),
    [
        (job(SEVEN, 3), 8, "ZeRO stage 1 fits"),
        (job(SEVEN, 3, more=OFFLOAD), 8, "moves less"),
        (job(SEVEN, 2, more=OFFLOAD), 8, "the optimizer offloaded needs"),
    ],
)
def test_sick_more_than_needed(files: dict[str, str], gpus: int, words: str) -> None:
    patient = memory_patient(files, "H100", gpus)
    [finding] = examine(ZeroStageMisfit, patient)
    assert finding.severity is Severity.WARNING and words in finding.message
    assert (finding.evidence[0].path, finding.evidence[0].line) == ("ds.json", 1)
    [remedy] = prescribe(zero_stage_misfit, finding, patient)
    assert remedy.edits


def test_sick_less_than_needed_and_memory_leaves_it_to_the_stage() -> None:
    patient = memory_patient(job(SEVENTY, 2), "H100", 32)
    [finding] = examine(ZeroStageMisfit, patient)
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "ZeRO stage 3" in finding.message
    assert examine(WillNotFit, patient) == []
    [remedy] = prescribe(zero_stage_misfit, finding, patient)
    [edit] = remedy.edits
    assert (edit.expected, edit.new_text) == ("2", "3")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("files", "gpus"),
    [
        (job(SEVEN, 2), 8),
        (job(SEVENTY, 3), 32),  # needed
        (job(SEVEN, 3, more=OFFLOAD), 1),  # one card needs it
        ({"sft.yaml": config(SEVEN)}, 8),  # no ZeRO
    ],
)
def test_healthy_jobs(files: dict[str, str], gpus: int | None) -> None:
    assert examine(ZeroStageMisfit, memory_patient(files, "H100", gpus)) == []


def test_the_launch_line_says_the_ranks() -> None:
    files = {**job(SEVEN, 3), "train.py": "print()\n"}
    launch = launch_line("torchrun --nproc_per_node=8 train.py --config sft.yaml", ranks=8)
    patient = memory_patient(files, "H100", launch=launch)
    [finding] = examine(ZeroStageMisfit, patient)
    assert "8 GPUs" in finding.message
