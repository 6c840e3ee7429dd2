"""The DeepSpeed config of a synthetic job: the user's with its gaps filled, or one for `--parallel zero2`."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.lang import say

ZERO = ("zero1", "zero2", "zero3")
AUTO = "auto"
_MICRO, _ACCUMULATE, _WHOLE = (
    "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size",
)  # fmt: skip
_OPTIMIZER = {"lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0}
"""What `auto` becomes in the optimizer's parameters: transformers' defaults, the rate of all synthetic jobs."""
_COMPILED = {"adam", "adamw"}
_BUCKET = 500_000_000
"""Elements of DeepSpeed's own reduce_bucket_size (runtime/zero/config.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A config as the engine gets it."""

    config: dict[str, Any]
    """Complete: nothing is `auto`."""
    changed: bool
    """Whether it differs from the user's file, which then stays as it is."""
    notes: tuple[str, ...] = ()
    """What was filled in or left out, a sentence each."""

    @property
    def optimizer(self) -> str | None:
        """The optimizer that the config names."""
        section = self.config.get("optimizer")
        return str(section.get("type", "")) if isinstance(section, dict) else None


def batches(
    raw: Mapping[str, Any], world: int, micro: int | None, accumulate: int | None, name: str
) -> tuple[int, int]:
    """Micro batch and accumulation by DeepSpeed's own rule: whole = micro x accumulation x ranks.

    `micro` and `accumulate` are the flags', None where they were not given. Raises `UsageError` where they, or
    the config's own numbers, disagree.
    """
    told = {key: _count(raw, key, name) for key in (_MICRO, _ACCUMULATE, _WHOLE)}
    for flag, given, key in (("--batch", micro, _MICRO), ("--accumulate", accumulate, _ACCUMULATE)):
        if given is not None and told[key] not in (None, given):
            raise UsageError(
                "{flag} {given} and {name} ({key} {value}) disagree; leave one of them out",
                flag=flag,
                given=given,
                name=name,
                key=key,
                value=told[key],
            )
    whole, micro, accumulate = told[_WHOLE], told[_MICRO] or micro, told[_ACCUMULATE] or accumulate
    if whole is not None and micro is None:
        micro = whole // (world * (accumulate or 1))
        accumulate = accumulate or 1
    elif whole is not None and accumulate is None:
        accumulate = whole // (world * (micro or 1))
    micro, accumulate = 1 if micro is None else micro, 1 if accumulate is None else accumulate
    if whole is not None and whole != micro * accumulate * world:
        raise UsageError(
            "{name}: {key} {value} is not {micro} (micro batch) x {accumulate} (accumulation) x "
            "{world} (ranks) = {product}; DeepSpeed would refuse it",
            name=name,
            key=_WHOLE,
            value=whole,
            micro=micro,
            accumulate=accumulate,
            world=world,
            product=micro * accumulate * world,
        )
    return micro, accumulate


def _count(raw: Mapping[str, Any], key: str, name: str) -> int | None:
    value = raw.get(key)
    if value is None or value == AUTO:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(
            "{name}: {key} is {value!r}; it must be a whole number from 1, or auto", name=name, key=key, value=value
        )
    return value


def complete(raw: Mapping[str, Any], shape: ModelShape, job: TrainingJob, *, cpu: bool) -> Engine:
    """The user's config with `auto` and what is missing filled in as transformers' Trainer would."""
    config = copy.deepcopy(dict(raw))
    notes: list[str] = []
    known = {
        _MICRO: job.batch, _ACCUMULATE: job.accumulate, _WHOLE: job.batch * job.accumulate * job.world,
        "gradient_clipping": 1.0,
    }  # fmt: skip
    for key, value in known.items():
        if config.get(key) == AUTO or (key == _MICRO and key not in config):
            config[key] = value
    for name in ("bf16", "fp16"):
        section = config.get(name)
        if isinstance(section, dict) and section.get("enabled") == AUTO:
            section["enabled"] = name in (job.dtype, job.mixed_precision)
    _optimizer(config, notes, cpu)
    section = config.get("scheduler")
    if isinstance(section, dict) and AUTO in (section.get("params") or {}).values():
        del config["scheduler"]
        notes.append("the DeepSpeed config's scheduler was left out: its auto values are Trainer's to fill")
    zero = config.get("zero_optimization")
    if isinstance(zero, dict):
        zero |= {key: value for key, value in _sizes(shape).items() if zero.get(key) == AUTO}
    _drop_auto(config, notes, "")
    return Engine(config=config, changed=config != raw, notes=(*notes, *_uncounted(config)))


def _optimizer(config: dict[str, Any], notes: list[str], cpu: bool) -> None:
    section = config.get("optimizer")
    if not isinstance(section, dict):
        return
    parameters = section.setdefault("params", {})
    for key, value in list(parameters.items()):
        if value == AUTO:
            parameters[key] = _OPTIMIZER.get(key)
    zero = config.get("zero_optimization")
    part = zero.get("offload_optimizer") if isinstance(zero, dict) else None
    offloaded = isinstance(part, dict) and part.get("device", "none") != "none"
    if cpu and not offloaded and str(section.get("type", "")).lower() in _COMPILED and "torch_adam" not in parameters:
        parameters["torch_adam"] = True
        notes.append("torch_adam was set in the DeepSpeed config: on a CPU its own Adam would be compiled first")


def _sizes(shape: ModelShape) -> dict[str, int]:
    """transformers/integrations/deepspeed.py, trainer_config_finalize."""
    square = shape.hidden * shape.hidden
    return {
        "reduce_bucket_size": square, "stage3_prefetch_bucket_size": int(0.9 * square),
        "stage3_param_persistence_threshold": 10 * shape.hidden,
    }  # fmt: skip


def _drop_auto(section: dict[str, Any], notes: list[str], path: str) -> None:
    for key, value in list(section.items()):
        if value == AUTO:
            del section[key]
            notes.append(say("{path}{key} of the DeepSpeed config is auto and was left out", path=path, key=key))
        elif isinstance(value, dict):
            _drop_auto(value, notes, f"{path}{key}.")


def made(job: TrainingJob, shape: ModelShape) -> Engine:
    """The config that `--parallel zero1..3` and `--offload` mean, where no file says more.

    Buckets have the sizes that transformers' Trainer gives them.
    """
    zero: dict[str, Any] = {"stage": int(job.parallel[-1]), **_sizes(shape)}
    if job.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if job.offload == "params":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    config: dict[str, Any] = {_MICRO: job.batch, _ACCUMULATE: job.accumulate, "zero_optimization": zero}
    low = job.mixed_precision if job.mixed_precision != "no" else job.dtype
    if low != "fp32":
        config[low] = {"enabled": True}
    if job.offload != "none":
        config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-4}}  # its own Adam for the CPU
    return Engine(config=config, changed=True, notes=_uncounted(config))


def _uncounted(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What the engine holds that no estimate counts: the buffer through which gradients are reduced."""
    zero = config.get("zero_optimization")
    if not isinstance(zero, dict) or not zero.get("stage") or zero.get("contiguous_gradients") is False:
        return ()
    elements = int(float(zero.get("reduce_bucket_size", _BUCKET)))
    copies = 2 if zero.get("overlap_comm") else 1
    return (
        say(
            "DeepSpeed's buffers for reducing gradients are not in the estimate: {copies} x "
            "reduce_bucket_size {elements:,} x 2 B = {gib:.2f} GiB",
            copies=copies,
            elements=elements,
            gib=2 * copies * elements / (1 << 30),
        ),
    )
