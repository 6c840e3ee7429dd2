"""PEFT's adapters on a model, by the names that its own modules have."""

from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.job import TARGETS, TrainingJob, roles
from gpudoctor.estimate.real.standins import adapter_class, four_bit_class, int8_class, is_linear
from gpudoctor.lang import say

_INNER = ("mlp", "ffn", "feed_forward", "DenseReluDense", "intermediate", "experts", "shared_expert")
_OWN = {
    "wi": "up", "wi_0": "gate", "wi_1": "up", "wo": "down", "dense_h_to_4h": "up", "dense_4h_to_h": "down",
    "o": "o", "q": "q", "k": "k", "v": "v",
}  # fmt: skip
"""Roles of names that the job's own table does not tell."""


def adapt(model: Any, job: TrainingJob) -> Any:
    """The model with frozen weights and adapters (`PeftModel`). Raises `UsageError` where no module matches."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=job.lora_rank, lora_alpha=2 * job.lora_rank, lora_dropout=job.lora_dropout, use_dora=job.lora_dora,
        target_modules=targets(model, job),
        modules_to_save=whole_modules(model) if job.train_embeddings else None,
        fan_in_fan_out=any(type(module).__name__ == "Conv1D" for module in model.modules()),
        bias="none", task_type=None,
    )  # fmt: skip
    if job.quantized:
        made = int8_class() if job.method == "int8-lora" else four_bit_class()
        config._register_custom_module({made: adapter_class()})
    return get_peft_model(model, config, autocast_adapter_dtype=job.lora_dtype == "fp32")


def targets(model: Any, job: TrainingJob) -> str | list[str]:
    """The modules that get an adapter: PEFT's own `all-linear`, or their full names."""
    if "all-linear" in job.lora_targets:
        return "all-linear"
    asked = {role for target in job.lora_targets for role in TARGETS.get(target, (target,))}
    if asked & {"q", "k", "v"}:
        asked.add("qkv")
    if asked & {"gate", "up"}:
        asked.add("gate_up")
    found = [name for name, module in model.named_modules() if is_linear(module) and _role(name) in asked]
    if not found:
        have = sorted({name.rsplit(".", 1)[-1] for name, module in model.named_modules() if is_linear(module)})
        raise UsageError(
            say(
                "--lora-targets {targets}: no module of {name} is one of them; it has {have}",
                targets=",".join(job.lora_targets),
                name=type(model).__name__,
                have=", ".join(have),
            )
        )
    return found


def _role(name: str) -> str:
    """The short role of a module by its path: `...mlp.c_proj` -> down, `...attention.output.dense` -> o."""
    *parents, last = name.split(".")
    inner = any(parent in _INNER for parent in parents)
    if last in {"c_proj", "dense"} and "attn" not in parents and "attention" not in parents:
        if inner:
            return "up" if "intermediate" in parents else "down"
        if last == "dense" and parents and parents[-1] == "output":
            return "down"
    try:
        return _OWN.get(last) or roles((last,))[0]
    except UsageError:
        return last


def whole_modules(model: Any) -> list[str]:
    """Names of embedding and head, for `modules_to_save`."""
    named = {module: name.rsplit(".", 1)[-1] for name, module in model.named_modules()}
    both = (model.get_input_embeddings(), model.get_output_embeddings())
    return list(dict.fromkeys(named[module] for module in both if module in named))
