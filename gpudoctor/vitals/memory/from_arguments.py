"""From training arguments in a script or on a launch line to the fields of a job."""

from typing import TYPE_CHECKING, Any

from gpudoctor.vitals.memory.declared_job import DeclaredJob
from gpudoctor.vitals.memory.from_config import ATTENTION, LIGER, known_optimizer

if TYPE_CHECKING:
    from gpudoctor.analysis.source.declared_settings import Setup, Written

_COUNTS = {
    "per_device_train_batch_size": "batch", "per_gpu_train_batch_size": "batch",
    "gradient_accumulation_steps": "accumulate", "max_seq_length": "seq", "max_length": "seq",
    "block_size": "seq", "model_max_length": "seq", "cutoff_len": "seq", "lora_r": "lora_rank",
    "lora_rank": "lora_rank",
}  # fmt: skip
_DEFAULTS = {"batch": 8, "accumulate": 1, "checkpointing": "none", "mixed_precision": "no"}
"""transformers' own (TrainingArguments)."""
SPEAKS = frozenset({*_COUNTS, "gradient_checkpointing", "bf16", "fp16", "optim", "fsdp", *LIGER})
"""Arguments that this reader knows."""


def read_arguments(setup: "Setup", told: DeclaredJob) -> None:
    """Add what training arguments say; where nothing else can be set, transformers' default holds."""
    for key, name in _COUNTS.items():
        item = setup.get(key)
        number = item.number if item is not None else None
        if item is not None and isinstance(number, int) and number > 0:
            told.tell(name, number, item.place)
    _checkpointing(setup, told)
    _mixed(setup, told)
    _words(setup, told)
    for name, value in _DEFAULTS.items():
        if name not in told.fields:
            told.fields[name] = value
            if not setup.whole or _written_unknown(setup, name):
                told.guessed.add(name)


def _written_unknown(setup: "Setup", name: str) -> bool:
    keys = [key for key, meant in _COUNTS.items() if meant == name]
    keys += ["gradient_checkpointing"] if name == "checkpointing" else []
    keys += ["bf16", "fp16"] if name == "mixed_precision" else []
    return any(key in setup.items for key in keys)


def _checkpointing(setup: "Setup", told: DeclaredJob) -> None:
    item = setup.get("gradient_checkpointing", "activation_checkpointing")
    if item is not None and (item.on or item.off):
        told.tell("checkpointing", "layer" if item.on else "none", item.place)


def _mixed(setup: "Setup", told: DeclaredJob) -> None:
    for name in ("bf16", "fp16"):
        item = setup.get(name)
        if item is not None and item.on:
            told.tell("mixed_precision", name, item.place)


def _words(setup: "Setup", told: DeclaredJob) -> None:
    """Optimizer, attention, sharding, fused kernels."""
    optimizer = setup.get("optim")
    if optimizer is not None and optimizer.word:
        found = known_optimizer(optimizer.word)
        if found is not None:
            told.tell("optimizer", found, optimizer.place)
    attention = _word(setup.get("attn_implementation"), ATTENTION)
    if attention:
        told.fields["attention"] = attention
    fsdp = setup.get("fsdp")
    if fsdp is not None and fsdp.known and fsdp.value not in (None, "", False, ()):
        told.tell("parallel", "fsdp", fsdp.place)
        if "offload" in str(fsdp.value):
            told.tell("offload", "params", fsdp.place)
    if setup.on(*LIGER) is not None:
        told.fields |= {"loss": "chunked", "fused_norm": True}
    if setup.on("torch_compile") is not None:
        told.fields["compiled"] = True


def _word(item: "Written | None", table: dict[str, str]) -> Any:
    return table.get(item.word) if item is not None else None
