"""Combinations that cannot be are refused with the field and what is allowed."""

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.estimate import TrainingJob, presets


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "lore"}, "method is 'lore'; it must be one of full, lora"),
        ({"batch": 0}, "batch is 0; it must be a whole number from 1"),
        ({"lora_dropout": 1.0}, "lora_dropout is 1.0"),
        ({"lora_targets": "q_proj,bogus"}, "lora_targets has 'bogus'"),
        ({"gpus": 4}, "--parallel none leaves 4 of 4 GPUs without a part"),
        ({"gpus": 4, "tp": 3, "parallel": "fsdp"}, "must divide the 4 GPUs"),
        ({"gpus": 4, "parallel": "zero3", "method": "gptq-lora"}, "cannot be sharded by --parallel zero3"),
        ({"gpus": 2, "tp": 2, "method": "qlora"}, "cannot be split by tp 2"),
        ({"offload": "params", "gpus": 2, "parallel": "zero2"}, "offload params needs --parallel zero3"),
        ({"dtype": "fp16", "mixed_precision": "bf16"}, "mixes two 16-bit types"),
        ({"optimizer": "lomo", "accumulate": 2}, "accumulate is 2, it must be 1"),
    ],
)  # fmt: skip
def test_impossible_jobs_name_the_field(change, said):
    with pytest.raises(UsageError) as caught:
        TrainingJob(**change)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        ("llama-3-8b", {"gpus": 3, "tp": 3}, "tp 3 must divide the 32 heads"),
        ("llama-3-8b", {"gpus": 64, "pp": 64}, "more than the 32 layers"),
        ("llama-3-8b", {"gpus": 2, "parallel": "fsdp", "ep": 2}, "has no experts"),
        ("mixtral-8x7b", {"gpus": 6, "parallel": "fsdp", "ep": 3}, "must divide the 8 experts"),
        ("gpt2", {"seq": 4096}, "beyond the 1024 learned positions"),
        ("bert-base-uncased", {"mode": "inference", "seq": 128}, "is an encoder"),
        ("mixtral-8x7b", {"method": "lora", "lora_targets": "qkv"}, "has none of them"),
        ("llama-3-8b", {"method": "freeze", "freeze_layers": 40}, "freeze_layers is 40"),
    ],
)
def test_jobs_that_a_model_cannot_do(model, change, said):
    with pytest.raises(UsageError) as caught:
        TrainingJob(**change).check(presets()[model].shape)
    assert said in str(caught.value)
