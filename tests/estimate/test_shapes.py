"""Parameters by part, against counts of the Hugging Face classes kept with the presets."""

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.estimate import ModelShape

LLAMA = {"name": "x", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp": 128, "vocab": 100}


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
