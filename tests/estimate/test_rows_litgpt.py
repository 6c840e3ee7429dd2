"""What benchmarks/estimate_litgpt.py adds to a row from the config that the row names."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

ROW = {
    "row": "1", "source": "Lightning-AI/litgpt", "source_version": "26857050 (2026-06-29)", "framework": "litgpt",
    "source_path": "config_hub/finetune/README.md (config tiny-llama/qlora.yaml)", "model": "tiny-llama",
    "params": "", "task": "train", "method": "qlora", "quant": "bnb nf4 (no double quant)",
    "weight_dtype": "bf16", "compute": "pure bf16", "optimizer": "AdamW", "lora_r": "32 (see yaml)",
    "lora_targets": "", "micro_batch": "8", "seq_len": "512", "seq_kind": "truncated at 512",
    "grad_ckpt": "no (single GPU) / FSDP ckpt on multi", "attention": "SDPA", "loss_kernel": "chunked CE",
    "compile": "no", "parallelism": "none", "num_gpus": "1", "gpu": "A10G-24GB",
    "metric": "torch max_memory_allocated", "status": "measured", "value": "16.24", "unit": "GB (1e9)",
    "value_gib": "15.125", "scope": "per GPU (max or as reported)", "notes": "",
}  # fmt: skip


@pytest.fixture
def job(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield lambda **cells: __import__("estimate_rows").row_of({**ROW, **cells}).job
    for name in ("estimate_rows", "estimate_litgpt"):
        sys.modules.pop(name, None)


def config(name: str) -> str:
    return f"config_hub/finetune/README.md (config {name})"


def test_rank_targets_dropout_and_quantization_are_those_of_the_yaml(job):
    found = job()
    assert (found.lora_rank, found.lora_dropout, found.lora_dtype) == (32, 0.05, "bf16")
    assert set(found.lora_targets) == {"q", "k", "v", "o", "gate", "up", "down", "head"}
    assert found.quant == "nf4" and found.double_quant is False
    assert job(quant="bnb.nf4-dq").double_quant and job(quant="nf4 double").double_quant
    assert set(job(source_path=config("falcon-7b/qlora.yaml"), model="falcon-7b").lora_targets) == {"q", "v"}


def test_the_yaml_and_not_the_machine_says_how_many_gpus(job):
    lora = job(source_path=config("phi-2/lora.yaml"), model="phi-2", method="lora", quant="none",
               num_gpus="4", parallelism="FSDP", micro_batch="4")  # fmt: skip
    assert (lora.gpus, lora.parallel, lora.checkpointing, lora.accumulate) == (1, "none", "none", 2)
    full = job(source_path=config("stablelm-base-alpha-3b/full.yaml"), model="stablelm-base-alpha-3b",
               method="full", quant="none", num_gpus="4", parallelism="FSDP", micro_batch="1")  # fmt: skip
    assert (full.gpus, full.parallel, full.checkpointing, full.accumulate) == (2, "fsdp", "layer", 4)


def test_a_name_that_no_file_has_is_read_as_the_one_meant(job):
    assert job(source_path=config("gemma2b/qlora.yaml"), model="gemma-2b").attention == "eager"


def test_tables_of_2023_have_128_samples_in_a_step_and_a_short_prompt(job):
    path = {"source_path": "tutorials/resource-tables.md", "framework": "lit-gpt 2023-10", "model": "Llama 2 7 B"}
    found = job(**path, method="lora", quant="None", lora_targets="q,v", lora_r="8", num_gpus="2",
                parallelism="FSDP", micro_batch="4")  # fmt: skip
    assert (found.accumulate, found.lora_rank, found.stack) == (16, 8, "litgpt-2024")
    served = job(**path, task="inference", method="inference", micro_batch="1", seq_len="1304")
    assert (served.seq, served.context) == (6, 56)
