"""Parameters by part, against counts of the Hugging Face classes kept with the presets."""

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.estimate import ModelShape, presets

LLAMA = {"name": "x", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp": 128, "vocab": 100}


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("llama-2-7b", 6_738_415_616), ("llama-3-8b", 8_030_261_248), ("mistral-7b-v0.1", 7_241_732_096),
        ("llama-3.2-3b", 3_212_749_824), ("gpt-j-6b", 6_050_882_784), ("qwen2.5-7b", 7_615_616_512),
    ],
)  # fmt: skip
def test_published_counts(name, published):
    assert presets()[name].shape.parameters.total == published


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"hidden": 64.0}, "hidden is 64.0"),
        ({"kv_heads": 3}, "it must divide the heads, which are"),
        ({"experts": 4, "top_k": 0}, "top_k must be from 1 to 4"),
        ({"hidden": 10**8, "layers": 10**5}, "taken for a mistake"),
    ],
)
def test_absurd_numbers_are_refused_with_the_field(change, said):
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        ModelShape(**{**LLAMA, **change})
