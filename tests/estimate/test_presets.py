"""Which model a name means."""

import pytest
from some import some

from gpudoctor.errors import UsageError
from gpudoctor.estimate import lookup, presets


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("llama-3-8b", "llama-3-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("qwen2.5-7b", "qwen2.5-7b"),
        ("Qwen/Qwen-1_8B-Chat", "qwen-1.8b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("internlm/internlm2-20b", "internlm2-20b"),
        ("QWEN3_8B", "qwen3-8b"),
        ("unsloth/Phi-4", "phi-4"),
        ("unsloth/Qwen2-VL-7B-Instruct-bnb-4bit", "qwen2-vl-7b"),
        ("THUDM/CogVideoX-2b", "cogvideox-2b"),
    ],
)
def test_names_that_are_exact(name, meant):
    found = lookup(name)
    assert found.preset.shape.name == meant
    assert "taken for" not in found.assumption


@pytest.mark.parametrize(
    ("name", "said"),
    [("llama-3-9b", "llama-3-8b"), ("gpt5", "is not known"), ("llama-3-80b", "is not known"), ("", "is not known")],
)
def test_unknown_names_are_refused_with_the_nearest(name, said):
    with pytest.raises(UsageError, match=said):
        lookup(name)


def test_every_preset_is_found_by_its_name_and_hub_id():
    for name, preset in some(presets().items()):
        assert lookup(name).preset.shape.name == name
        assert lookup(preset.hub).preset.hub == preset.hub
        assert preset.shape.parameters.total == preset.parameters, name
        assert preset.shape.parameters.linear == preset.linear and preset.sources, name
    assert len(presets()) >= 120  # as many were counted on the meta device


def test_widths_that_nobody_checked_are_told():
    assert "nobody checked the widths of rwkv7-2.9b" in lookup("rwkv7-2.9b").assumption
    assert lookup("llama-2-7b").assumption == ""
