import pytest
from jobs import memory_patient
from memory_jobs import config, script

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.memory.checkpointing_unneeded import CheckpointingUnneeded
from gpudoctor_rules.memory import checkpointing_unneeded

SMALL = "Qwen/Qwen2.5-0.5B"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("sft.yaml", config(SMALL, batch=2, seq=1024), 8), ("train.py", script(SMALL, batch=2), 16)],
)
def test_sick_jobs(name: str, text: str, line: int) -> None:
    patient = memory_patient({name: text})
    [finding] = examine(CheckpointingUnneeded, patient)
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0].line == line
    [remedy] = prescribe(checkpointing_unneeded, finding, patient)
    assert len(remedy.edits) == 1


@pytest.mark.parametrize(
    "text",
    [
        config(SMALL, batch=2, seq=1024, checkpointing=False),
        config(SMALL, batch=32, seq=4096),  # it does not fit without
        config(SMALL, batch=2).replace("max_seq_length: 4096\n", ""),  # the length is a guess
        config(SMALL, batch=2, seq=1024).replace("torch_dtype: bfloat16\n", ""),  # the type is a guess
    ],
)
def test_healthy_jobs(text: str) -> None:
    assert examine(CheckpointingUnneeded, memory_patient({"sft.yaml": text})) == []
