"""Flags of `gpudoctor estimate` for what few jobs say: each reaches its field and moves the bytes its way."""

import json

import pytest

from gpudoctor.cli import main


@pytest.fixture
def data(capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*words):
        assert main(["estimate", "--gpu", "H100", *words, "--format", "json"]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    return run


def test_more_scales_in_a_gptq_base_take_more(data):
    usual = data("--model", "7b", "--method", "gptq-lora")
    finer = data("--model", "7b", "--method", "gptq-lora", "--set", "quant_group=32")
    column = data("--model", "7b", "--method", "gptq-lora", "--set", "quant_group=0")
    assert (usual["job"]["quant_group"], finer["job"]["quant_group"]) == (128, 32)
    assert column["static_bytes"] < usual["static_bytes"] < finer["static_bytes"]


def test_adapters_in_16_bits_take_half(data):
    wide, low = (data("--model", "7b", "--method", "lora", f"--set=lora_dtype={each}") for each in ("fp32", "bf16"))
    size = {
        name: next(line["bytes"] for line in got["lines"] if line["kind"] == "adapters")
        for name, got in (("wide", wide), ("low", low))
    }
    assert size["wide"] == 2 * size["low"]


def test_quantized_experts_are_the_smaller_base(data):
    whole, few = (
        data("--model", "mixtral-8x7b", "--method", "qlora", flag)
        for flag in ("--set=experts_quantized=no", "--set=experts_quantized=yes")
    )
    assert few["static_bytes"] < whole["static_bytes"] / 2
    assert data("--model", "mixtral-8x7b", "--method", "qlora")["static_bytes"] == whole["static_bytes"]


def test_outputs_that_are_kept_stay_through_the_backward(data):
    kept, freed = (
        data("--model", "llama-3-8b", "--method", "lora", flag)
        for flag in ("--set=outputs_kept=yes", "--set=outputs_kept=no")
    )
    assert "logits-kept" in {line["kind"] for each in kept["instants"] for line in each["lines"]}
    assert "logits-kept" not in {line["kind"] for each in freed["instants"] for line in each["lines"]}


def test_fused_adapters_keep_less(data):
    words = ("--model", "7b", "--method", "qlora", "--no-checkpointing", "--set", "lora_dropout=0.1")
    assert data(*words, "--set=lora_fused=yes")["total_bytes"] < data(*words)["total_bytes"]


@pytest.mark.parametrize("value", ["-1", "10000000000"])
def test_a_group_that_cannot_be_is_refused(value, capsys):
    assert main(["estimate", "--model", "7b", "--method", "gptq-lora", f"--set=quant_group={value}"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "--quant-group" in said.err and value in said.err
