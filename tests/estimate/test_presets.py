"""Which model a name means."""

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.estimate import lookup, presets
from gpudoctor.estimate.presets import FAMILIES, SIZES


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("llama-3-8b", "llama-3-8b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("qwen2.5-7b", "qwen2.5-7b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen-1_8B-Chat", "qwen-1.8b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("01-ai/Yi-6B", "yi-6b"),
        ("internlm/internlm2-20b", "internlm2-20b"),
        ("mosaicml/mpt-30b", "mpt-30b"),
        ("Qwen/Qwen1.5-14B-Chat", "qwen1.5-14b"),
        ("QWEN3_8B", "qwen3-8b"),
    ],
)
def test_names_that_are_exact(name, meant):
    found = lookup(name)
    assert found.preset.shape.name == meant
    assert found.assumption == ""


@pytest.mark.parametrize("name", ["7b", "llama", "qwen3"])
def test_ambiguous_names_say_what_was_assumed(name):
    found = lookup(name)
    assert found.preset.shape.name in found.assumption
    assert repr(name) in found.assumption


@pytest.mark.parametrize("name", ["llama-3-9b", "gpt5", "qwen2.5-8b", ""])
def test_unknown_names_are_refused(name):
    with pytest.raises(UsageError, match="is not known"):
        lookup(name)


def test_the_nearest_names_are_given():
    with pytest.raises(UsageError, match="llama-3-8b"):
        lookup("llama-3-9b")


def test_a_longer_size_is_not_taken_for_a_shorter_one():
    with pytest.raises(UsageError):
        lookup("llama-3-80b")


def test_every_size_and_family_names_a_preset():
    assert set(SIZES.values()) | set(FAMILIES.values()) <= set(presets())


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_is_found_by_its_name_and_hub_id(name):
    assert lookup(name).preset.shape.name == name
    hub = presets()[name].hub
    assert lookup(hub).preset.hub == hub
