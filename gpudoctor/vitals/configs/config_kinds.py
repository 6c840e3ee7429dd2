"""Whose config a file is, told from its keys: a name or a suffix proves nothing.

Every rule asks for keys that only that tool has, or for several of those that it shares with others. What no
rule takes is `UNKNOWN`, so a package.json, a compiler's settings or a data file is never judged as training.
"""

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Final

from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.vitals.configs.config_text import key_tables, words
from gpudoctor.vitals.configs.tree import Flat


@cache
def _keys(name: str) -> frozenset[str]:
    """One of the sets of keys in `keys.toml`."""
    return words(key_tables()["kinds"][name])


_SECTION: Final = re.compile(
    r"(train|data|loader|monitor|log|lora|peft|optim|solver|sched|model|eval|valid|checkpoint|profil|freq|memory"
    r"|hardware|system|runtime|accel|distributed|precision|trainer|run|exp|hparam|hyper|param|config|quant)"
)
_OWN_STRONG: Final = re.compile(
    r"(flops_profile(r)?_freq|profile_freq|training_log_freq|log_freq|logging_freq|log_interval|log_every(_n)?(_steps)?"
    r"|(data_?loader_)?num_workers|dataloader_pin_memory|pin_memory|gradient_checkpointing|grad_accum(ulation)?(_steps)?"
    r"|gradient_accumulation(_steps)?|micro_batch_size|per_device_train_batch_size|batch_size|train_batch_size"
    r"|learning_rate|lr|base_lr|num_train_epochs|num_epochs|epochs|max_epochs|total_epochs|n_epochs|max_steps|max_iters"
    r"|train_iters|total_steps|num_train_steps|warmup_steps|warmup_ratio|warmup_epochs|weight_decay|grad_clip"
    r"|max_grad_norm|amp|use_amp|mixed_precision|fp16|bf16|save_freq|save_interval|save_every|save_steps|eval_freq"
    r"|eval_interval|eval_every|eval_steps|val_interval|ckpt_interval|checkpoint_interval|persistent_workers"
    r"|prefetch_factor|lora_alpha|lora_r|lora_rank|lora_dropout|optimizer|optimizer_name|lr_scheduler)\Z"
)


def recognise(flat: Flat) -> ConfigKind:
    """The kind of a config, by its keys."""
    top = {key for key in flat.sections if "." not in key and "[" not in key}  # a list's name without its index
    top |= {entry.parts[0] for entry in flat.entries.values() if len(entry.parts) == 1}
    if {"apiVersion", "kind"} <= top:
        return ConfigKind.KUBERNETES
    if "log_history" in top or "nbformat" in top:
        return ConfigKind.UNKNOWN  # a Trainer's own state, a notebook: what was, no settings
    if composed(flat):
        return ConfigKind.UNKNOWN  # what other files and the command line make of it, only Hydra knows
    for kind, matches in _RULES:
        if matches(flat, top):
            return kind
    return ConfigKind.UNKNOWN


def composed(flat: Flat) -> bool:
    """Whether Hydra puts the file together with others, or builds objects from it."""
    return any(
        entry.last == "_target_"
        or entry.key.startswith("defaults[")
        or (entry.key == "defaults" and isinstance(entry.value, tuple))
        for entry in flat.entries.values()
    )


def _many(names: Collection[str], table: str, least: int) -> bool:
    return len(_keys(table).intersection(names)) >= least


def _mostly(table: str, least: int) -> Callable[[Flat, set[str]], bool]:
    """A rule: some keys of a table, and few others."""
    return lambda _, top: _many(top, table, least) and len(top - _keys(table)) <= 4


def _lightning(flat: Flat, top: set[str]) -> bool:
    classes = any(f"{part}.class_path" in flat.entries for part in ("model", "data", "optimizer"))
    for prefix in ("trainer", "fit.trainer", "pl_trainer", "lightning.trainer"):
        target = flat.entries.get(f"{prefix}.class_path")
        if target is not None and "lightning" in str(target.value):
            return True
        inside = {key[len(prefix) + 1 :].split(".")[0] for key in flat.entries if key.startswith(prefix + ".")}
        if _many(inside, "trainer", 1 if classes or "seed_everything" in top else 3) and inside & _keys("trainer_own"):
            return True
    return False


def _llama_factory(flat: Flat, top: set[str]) -> bool:
    stage = flat.entries.get("stage")
    staged = stage is not None and stage.value in {"pt", "sft", "rm", "ppo", "dpo", "kto"}
    named = bool({"model_name_or_path", "adapter_name_or_path"} & top)
    return "base_model" not in top and (
        ("finetuning_type" in top and (named or _many(top, "llama_factory", 2)))
        or (staged and _many(top, "llama_factory", 3))
        or (named and "template" in top and _many(top, "llama_factory", 2))
    )


def _deepspeed(flat: Flat, top: set[str]) -> bool:
    if top & (_keys("hf_strong") | {"base_model"}):
        return False
    strong, weak = len(top & _keys("deepspeed_strong")), len(top & _keys("deepspeed_weak"))
    enabled = any(key in flat.entries for key in ("fp16.enabled", "bf16.enabled", "flops_profiler.enabled"))
    staged = "zero_optimization.stage" in flat.entries
    only = top <= _keys("deepspeed_strong") | _keys("deepspeed_weak")
    several = (strong >= 1 and strong + weak >= 2) or (enabled and (weak >= 2 or only))
    return staged or several or "steps_per_print" in top


def _sections(flat: Flat, top: set[str]) -> bool:
    """Somebody's own config: at least three settings of training, at the top or in sections named for it."""
    if top & _keys("foreign"):
        return False
    found: set[str] = set()
    for entry in flat.entries.values():
        *outer, name = [part.lower().replace("-", "_") for part in entry.parts]
        if len(outer) > 4:
            continue
        if _TELLING.match(name):
            return True
        if _OWN_STRONG.match(name) and (not outer or any(_SECTION.search(part) for part in outer)):
            found.add(name)
    return len(found) >= 3


_TELLING: Final = re.compile(
    r"(flops_profile(r)?_freq|training_log_freq|dataloader_num_workers|gradient_checkpointing|grad_accum.*"
    r"|gradient_accumulation.*|per_device_train_batch_size|lora_alpha|num_train_epochs|dataloader_pin_memory)\Z"
)

_RULES: Final[tuple[tuple[ConfigKind, Callable[[Flat, set[str]], bool]], ...]] = (
    (
        ConfigKind.TORCHTUNE,
        lambda flat, top: (
            any(entry.last == "_component_" for entry in flat.entries.values()) and not top & _keys("foreign")
        ),
    ),
    (ConfigKind.LIGHTNING, _lightning),
    (
        ConfigKind.ACCELERATE,
        lambda _, top: not top.isdisjoint({"compute_environment", "distributed_type"}) and _many(top, "accelerate", 2),
    ),
    (ConfigKind.LLAMA_FACTORY, _llama_factory),
    (ConfigKind.AXOLOTL, lambda _, top: "base_model" in top and _many(top, "axolotl", 2)),
    (ConfigKind.DEEPSPEED, _deepspeed),
    (
        ConfigKind.HUGGINGFACE,
        lambda _, top: (_many(top, "hf_strong", 1) and _many(top, "hf_keys", 3)) or _many(top, "hf_keys", 5),
    ),
    (
        ConfigKind.PEFT,
        lambda _, top: "peft_type" in top or ({"lora_alpha", "target_modules"} <= top and _many(top, "peft", 3)),
    ),
    (
        ConfigKind.MODEL,
        lambda _, top: (
            "model_type" in top
            and (bool(top & {"architectures", "transformers_version"}) or _many(top, "model_shape", 3))
        ),
    ),
    (ConfigKind.QUANTISATION, _mostly("quantisation", 1)),
    (ConfigKind.FSDP, _mostly("fsdp", 2)),
    (ConfigKind.SECTIONS, _sections),
)
"""Most telling first."""
