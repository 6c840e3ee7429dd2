"""Formulas and their sources in Chinese: of every kind of job, nothing but names is left in English."""

import re

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.estimate import estimate
from gpudoctor.lang import speaking, word
from gpudoctor.report.formula_words import formula_text, source_text

MODELS = ("7b", "gemma-2-9b", "mixtral-8x7b", "deepseek-v2-lite", "gpt2", "falcon-7b", "starcoder", "bert-base-uncased")
METHODS = ("full", "lora", "qlora", "int8-lora", "gptq-lora", "freeze")
JOBS = (
    {}, {"checkpointing": "none"}, {"checkpointing": "selective"}, {"loss": "chunked"}, {"loss": "fused"},
    {"attention": "eager"}, {"optimizer": "adafactor"}, {"optimizer": "galore"}, {"optimizer": "adamw-8bit"},
    {"optimizer": "lomo"}, {"optimizer": "sgd"}, {"mixed_precision": "bf16", "dtype": "fp32"}, {"accumulate": 4},
    {"stack": "litgpt"}, {"stack": "litgpt", "loss": "chunked"}, {"stack": "litgpt", "parallel": "fsdp", "gpus": 4},
    {"stack": "megatron", "gpus": 8, "parallel": "ddp"}, {"parallel": "fsdp", "gpus": 8}, {"parallel": "zero3", "gpus": 8},
    {"parallel": "zero2", "gpus": 8, "offload": "optimizer"}, {"gpus": 8, "tp": 2, "pp": 2, "parallel": "fsdp2"},
    {"train_embeddings": True}, {"outputs_kept": True}, {"mode": "inference"}, {"gpu": "H100"},
)  # fmt: skip
NAMES = re.compile(
    r"arXiv|GPU|MiB|dkv|Adafactor|GPTQ|GaLore|QLoRA|LoRA|ZeRO|FSDP|FSDP1|PEFT|DDP|NCCL|MLP|CUDA|Megatron-Core|Liger|BACKWARD_PRE"
    r"|Lightning(?: Fabric)?|StableEmbedding|LLM\.int8|[A-Za-z]*(?:Loss|Linear|CausalLM)|bitsandbytes|transformers|torch(?:titan)?"
    r"|(?:litgpt|vllm|accelerate|deepspeed|adamw|autocast|attention|norm|embedding|logits?|softmax|log-softmax|loss|tanh|k-bit"
    r"|batch|micro|checkpoint|token|rank|stream|latent|sequences|cuBLAS|prefill|fp16|fp32|bf16)\b"
)
CODE = re.compile(r"\S*[_/.=\d]\S*")


def english(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]{3,}", NAMES.sub("|", CODE.sub("|", text)))


def test_no_formula_source_or_kind_of_any_job_is_left_in_english():
    lines = set()
    for model in MODELS:
        for method in METHODS:
            for job in JOBS:
                try:
                    found = estimate(model=model, method=method, seq=512, **job)
                except UsageError:
                    continue  # the two do not go together
                lines |= {line for instant in found.instants for line in instant.lines} | set(found.card.lines)
    formulas = {re.sub(r"\d[\d,.]*", "2", line.formula): line.formula for line in lines}
    sources = {line.source for line in lines}
    assert len(formulas) > 40 and len(sources) > 50
    with speaking("zh"):
        shown = [*map(formula_text, formulas.values()), *map(source_text, sources)]
        shown += [word(line.kind) for line in lines]
    left = {text for text in shown if english(text)}
    assert not left, "\n".join(sorted(left))
    assert not [text for text in shown if re.search("[\u3400-\u9fff][,;:]", text)]


@pytest.mark.parametrize(
    ("formula", "chinese"),
    [
        (
            "2 B x 4,096 hidden x 32 blocks x 2,048 tokens",
            "2 B x 4,096 \u9690\u85cf\u7ef4 x 32 \u5757 x 2,048 \u4e2a token",
        ),
        (
            "2 B x 8,192 weights of the head / 2 GPUs",
            "2 B x 8,192 \u4e2a\u6743\u91cd\uff08\u8f93\u51fa\u5934\uff09/ 2 \u4e2a GPU",
        ),
    ],
)
def test_numbers_and_signs_of_a_formula_stay(formula, chinese):
    assert formula_text(formula) == formula
    with speaking("zh"):
        assert formula_text(formula) == chinese
