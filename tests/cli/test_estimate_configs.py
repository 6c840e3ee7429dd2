"""`gpudoctor estimate CONFIG`: the job that each tool's config describes."""

import json

import pytest

from gpudoctor.cli import estimate as command
from gpudoctor.cli import main


@pytest.fixture(autouse=True)
def no_card(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_own_card", lambda: (None, ""))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(capsys, tmp_path):
    def run(files, *words):
        for name, text in files.items():
            (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text))
        code = main(["estimate", *files, *words, "--format", "json"])
        said = capsys.readouterr()
        assert code in (0, 1), said.err
        return json.loads(said.out)

    return run


def job(got, *names):
    return tuple(got["job"][name] for name in names)


HUGGINGFACE = """
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
output_dir: out
per_device_train_batch_size: 4
gradient_accumulation_steps: 8
num_train_epochs: 3
learning_rate: 2.0e-5
bf16: true
gradient_checkpointing: true
max_seq_length: 4096
optim: paged_adamw_8bit
attn_implementation: flash_attention_2
use_liger_kernel: true
"""


def test_hugging_face(data):
    got = data({"train.yaml": HUGGINGFACE})
    assert got["model"]["name"] == "qwen2.5-7b"
    assert job(got, "method", "batch", "accumulate", "seq") == ("full", 4, 8, 4096)
    assert job(got, "optimizer", "attention", "checkpointing", "loss", "fused_norm") == (
        "paged-adamw-8bit", "flash", "layer", "chunked", True,
    )  # fmt: skip
    assert job(got, "dtype", "mixed_precision") == ("bf16", "bf16")
    assert any("names no dtype of the weights" in said for said in got["assumptions"])
    assert got["alternatives"] == []


def test_flags_go_over_the_config(data):
    got = data({"train.yaml": HUGGINGFACE}, "--batch", "1", "--method", "lora", "--model", "7b", "--no-checkpointing")
    assert job(got, "batch", "method", "checkpointing") == (1, "lora", "none")
    assert got["model"]["name"] == "llama-2-7b"


def test_llama_factory(data):
    sft = """
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
quantization_bit: 4
stage: sft
do_train: true
finetuning_type: lora
lora_target: all
lora_rank: 32
dataset: identity
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 2
bf16: true
"""
    got = data({"sft.yaml": sft})
    assert got["model"]["name"] == "llama-3-8b"
    assert job(got, "method", "lora_rank", "seq", "batch") == ("qlora", 32, 1024, 2)
    assert job(got, "lora_targets") == (["all-linear"],)


def test_axolotl(data):
    got = data(
        {
            "axolotl.yml": """
base_model: NousResearch/Llama-2-7b-hf
load_in_4bit: true
adapter: qlora
lora_r: 16
lora_dropout: 0.05
lora_target_modules: [q_proj, v_proj, strange_proj]
sequence_len: 4096
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 1
optimizer: adamw_bnb_8bit
bf16: true
flash_attention: true
gradient_checkpointing: true
datasets: [{path: x, type: alpaca}]
"""
        }
    )
    assert got["model"]["name"] == "llama-2-7b"
    assert job(got, "method", "optimizer", "seq", "batch", "lora_dropout") == ("qlora", "adamw-8bit", 4096, 2, 0.05)
    assert job(got, "lora_targets") == (["q", "v"],)
    assert any("strange_proj" in said for said in got["assumptions"])


ZERO = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
}


def test_deepspeed_with_a_model(data):
    got = data({"ds.json": ZERO}, "--model", "7b", "--gpus", "8", "--method", "full")
    assert job(got, "parallel", "offload", "batch", "accumulate", "gpus") == ("zero3", "optimizer", 2, 4, 8)
    got = data({"ds.json": ZERO}, "--model", "7b")
    assert any("--gpus" in said for said in got["assumptions"])


def test_a_deepspeed_config_that_another_names(data):
    got = data({"train.yaml": HUGGINGFACE + "deepspeed: ds.json\n"}, "--gpus", "4")
    assert any("ds.json, named by train.yaml, does not exist" in said for said in got["assumptions"])
    assert job(got, "parallel") == ("ddp",)
    got = data({"ds.json": ZERO, "train.yaml": HUGGINGFACE + "deepspeed: ds.json\n"}, "--gpus", "4")
    assert job(got, "parallel", "offload", "gpus") == ("zero3", "optimizer", 4)


def test_accelerate(data):
    accelerate = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config: {fsdp_sharding_strategy: FULL_SHARD}
"""
    got = data({"train.yaml": HUGGINGFACE, "accelerate.yaml": accelerate})
    assert job(got, "gpus", "nodes", "parallel") == (8, 2, "fsdp")
