"""From allocated bytes to the card."""

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.estimate import device, estimate


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100", "H100 80GB"), ("NVIDIA A100-SXM4-80GB", "A100 80GB"), ("4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"), ("Tesla T4", "T4"), ("l40s", "L40S"), ("A100-40GB", "A100 40GB"),
    ],
)  # fmt: skip
def test_cards_by_name(spelling, name):
    assert device(spelling).name == name


@pytest.mark.parametrize(
    ("spelling", "said"),
    [("h9000", "is not known"), ("", "is not known"), ("0", "0 bytes"), ("a1", "A100 40GB"), (0, "0 bytes")],
)
def test_cards_that_are_none(spelling, said):
    with pytest.raises(UsageError, match=said):
        device(spelling)


def test_a_step_may_come_nearer_to_the_end_of_the_card_than_a_loss():
    step = estimate("llama-3-8b", gpu="a100-80gb")
    loss = estimate("llama-3-8b", gpu="a100-80gb", method="lora", batch=16)
    assert step.peak.name == "step" and loss.peak.name == "loss"
    assert step.card.limit > loss.card.limit
    shared = estimate("llama-3-8b", gpu="a100-80gb", method="lora", batch=16, gpus=2, parallel="fsdp")
    assert shared.card.limit < loss.card.limit
