import pytest
from jobs import patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.config.lora_misfit import LoraMisfit

NOTE, ERROR = Severity.NOTE, Severity.ERROR


def config(text: str) -> str:
    return f"from peft import LoraConfig\nconfig = LoraConfig({text})\n"


def test_sick_rank_zero() -> None:
    [finding] = examine(LoraMisfit, patient_of({"train.py": config("r=0, lora_alpha=8")}))
    assert finding.severity is ERROR
    assert finding.cost.breaks


GUARDED = """
from peft import LoraConfig, get_peft_model
def adapted(model, rank=0, wanted=False):
    {guard}
        return get_peft_model(model, LoraConfig(r=rank))
    return model
def load(model, size=0):
    {outer}
        model = adapted(model, rank=size)
    return model
load(base)
"""


@pytest.mark.parametrize(
    ("guard", "outer", "found"),
    [
        ("if rank > 0:", "if True:", 0),
        ("if rank:", "if True:", 0),
        ("if wanted and rank >= 1:", "if True:", 0),
        ("if True:", "if size > 0:", 0),
        ("if True:", "if True:", 1),
        ("if rank == 0:", "if True:", 1),
    ],
)
def test_a_rank_that_its_own_guard_keeps_out(guard: str, outer: str, found: int) -> None:
    text = GUARDED.format(guard=guard, outer=outer)
    assert len(examine(LoraMisfit, patient_of({"train.py": text}))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("r=8, lora_alpha=136", 1), ("r=64, lora_alpha=6", 1), ("r=8, lora_alpha=128", 0), ("r=160, lora_alpha=16", 0),
     ("r=2, lora_alpha=64", 0), ("r=RANK, lora_alpha=512", 0), ("r=8, lora_alpha=512, use_rslora=True", 0),
     ("**options", 0)],
)  # fmt: skip
def test_sick_and_healthy_scales(text: str, found: int) -> None:
    assert len(examine(LoraMisfit, patient_of({"train.py": config(text)}))) == found
