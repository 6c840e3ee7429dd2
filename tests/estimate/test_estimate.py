"""The public function: what it takes, what it gives, and that more of anything never needs less."""

import subprocess
import sys

import pytest

from gpudoctor.estimate import ModelShape, TrainingJob, estimate, estimate_job, presets
from gpudoctor.model import Provenance


def line(found, instant, kind):
    (lines,) = (each.lines for each in found.instants if each.name == instant)
    return next(each for each in lines if each.kind == kind)


@pytest.mark.parametrize(
    ("options", "inner", "wide", "rest"),
    [
        ({"method": "full"}, 24, 8, 4 * 32 + 8),
        ({"method": "full", "dtype": "fp32", "mixed_precision": "bf16"}, 34, 8, 4 * 32 + 8),
        ({"method": "lora", "lora_rank": 16}, 40, 10, 28 * 16 + 4 * 32 + 8),
    ],
)
def test_what_a_llama_block_keeps_by_hand(options, inner, wide, rest):
    """Saved tensors counted with torch's own hooks: so many times the hidden width, the MLP's, and a rest."""
    kept = line(estimate("llama-2-7b", seq=512, checkpointing=False, **options), "layer", "activations").bytes
    assert kept / (32 * 512) == pytest.approx(inner * 4096 + wide * 11008 + rest, rel=0.002)


def test_import_of_gpudoctor_loads_no_estimate_and_an_estimate_loads_no_torch():
    code = (
        "import sys, gpudoctor; assert 'gpudoctor.estimate' not in sys.modules;"
        "gpudoctor.estimate('7b'); assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_instant_is_the_sum_of_its_lines_and_the_peak_is_the_largest():
    found = estimate("llama-3-8b", method="lora", accumulate=4, gpu="a100-80gb")
    assert [instant.name for instant in found.instants] == ["load", "loss", "layer", "backward", "accumulation", "step"]
    assert {line.provenance for each in found.instants for line in each.lines} == {Provenance.ANALYTIC}
    assert found.peak.bytes == found.total_bytes == max(instant.bytes for instant in found.instants)


def test_bytes_a_parameter_by_hand():
    parameters = presets()["llama-2-7b"].parameters
    for change, per in (
        ({}, 10), ({"optimizer": "adamw-fused"}, 8), ({"dtype": "fp32"}, 20), ({"dtype": "fp32", "optimizer": "adamw-fused"}, 16),
        ({"optimizer": "adamw-8bit"}, 6.031), ({"optimizer": "adamw-ao-4bit"}, 5.062), ({"optimizer": "lion-8bit"}, 5.016),
        ({"optimizer": "sgd"}, 4), ({"optimizer": "lion"}, 6), ({"master_weights": True}, 20), ({"stack": "megatron"}, 22),
    ):  # fmt: skip
        step = next(each for each in estimate("llama-2-7b", seq=16, **change).instants if each.name == "step")
        assert step.bytes / parameters == pytest.approx(per, rel=0.004), change


def test_zero_papers_table():
    """ZeRO, arXiv 1910.02054: 7.5 B parameters on 64 GPUs with 16 bytes each: 120, 31.4, 16.6, 1.9 GB of state."""
    shape = ModelShape(name="7.5b", layers=36, hidden=4096, heads=32, kv_heads=32, head_dim=128, mlp=16384, vocab=50257, gated=False, norm="layernorm", tied=True)  # fmt: skip
    kinds = {"weights", "gradients", "optimizer"}
    for parallel, per in (("ddp", 16.0), ("zero1", 4 + 12 / 64), ("zero2", 2 + 14 / 64), ("zero3", 16 / 64)):
        job = TrainingJob(gpus=8, nodes=8, parallel=parallel, mixed_precision="bf16", master_weights=True)
        step = next(each for each in estimate_job(shape, job).instants if each.name == "step")
        state = sum(line.bytes for line in step.lines if line.kind in kinds)
        assert state / shape.parameters.total == pytest.approx(per, rel=0.001), parallel


@pytest.mark.parametrize(
    "model", ["llama-3-8b", "gemma-2-9b", "mixtral-8x7b", "gpt2", "opt-6.7b", "bert-large-uncased"]
)
def test_checkpointing_sharding_and_chunked_loss_give_back(model):
    job = {"model": model, "seq": 512, "batch": 16}
    usual, plain = estimate(**job), estimate(**job, checkpointing=False)
    assert usual.total_bytes <= plain.total_bytes
    layer, kept = (next(each for each in found.instants if each.name == "layer") for found in (usual, plain))
    assert layer.bytes < kept.bytes
    assert estimate(**job, checkpointing="offloaded").total_bytes <= usual.total_bytes
    assert estimate(**job, loss="chunked").total_bytes <= usual.total_bytes
    over = estimate(**job, gpus=8, parallel="fsdp2")
    assert over.total_bytes < usual.total_bytes and over.static < usual.static / 6


@pytest.mark.parametrize(
    ("model", "options", "cached"),
    [
        ("llama-3-8b", {"concurrency": 4}, 2 * 2 * 8 * 128 * 32 * 8192 * 4),
        ("llama-3-8b", {"concurrency": 4, "kv_dtype": "fp8"}, 2 * 8 * 128 * 32 * 8192 * 4),
        ("gemma-2-9b", {}, 2 * 2 * 8 * 256 * 42 * (4096 + 8192) // 2),  # every second layer has a window
        ("deepseek-v3", {}, (512 + 64) * 2 * 61 * 8192),  # compressed
    ],
)
def test_inference_cache_by_hand(model, options, cached):
    assert line(estimate(model, mode="inference", context=8192, **options), "decode", "kv-cache").bytes == cached


def test_a_fused_loss_with_adapters_means_fused_adapters():
    asked = {"method": "lora", "mixed_precision": "bf16", "attention": "flash", "seq": 65536}
    fused, stock = (estimate("qwen3-4b", loss=loss, **asked) for loss in ("fused", "chunked"))
    assert fused.job.stack == "unsloth" and stock.job.stack == "hf"
    assert fused.reach.high >= stock.total_bytes > fused.total_bytes
    assert any("Unsloth or axolotl" in said for said in fused.assumptions)


def test_what_only_looks_like_a_known_model_has_a_wide_interval():
    seen = estimate("qwen2-vl-7b", method="full", checkpointing="none")
    words = estimate("qwen2-7b", method="full", checkpointing="none")
    kinds = [[line.kind for line in each.instants[1].lines] for each in (seen, words)]
    assert kinds[0].count("activations") == kinds[1].count("activations") + 1
    assert seen.reach.high > seen.total_bytes and words.reach.high == words.total_bytes
    assert any("plain blocks" in said for said in estimate("flux.1-dev", method="lora").assumptions)
