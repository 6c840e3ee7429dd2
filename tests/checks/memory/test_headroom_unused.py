import pytest
from jobs import memory_patient
from memory_jobs import config, script

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.memory.headroom_unused import HeadroomUnused

SMALL = "Qwen/Qwen2.5-0.5B"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("sft.yaml", config(SMALL, batch=1, seq=2048, checkpointing=False), 3),
        ("train.py", script(SMALL, batch=2, checkpointing=False), 14),
    ],
)
def test_sick_jobs(name: str, text: str, line: int) -> None:
    [finding] = examine(HeadroomUnused, memory_patient({name: text}))
    assert finding.severity is Severity.NOTE
    assert finding.evidence[0].line == line
    assert "micro batch of" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        config(SMALL, batch=16, seq=2048, checkpointing=False),  # most of the card
        config(SMALL, batch=1, seq=512, checkpointing=False),  # PERF007's
        config(SMALL, batch=1, seq=2048, checkpointing=True),  # MEM008's
        config(SMALL, batch=1, checkpointing=False).replace("max_seq_length: 4096\n", ""),
    ],
)
def test_healthy_jobs(text: str) -> None:
    assert examine(HeadroomUnused, memory_patient({"sft.yaml": text})) == []
