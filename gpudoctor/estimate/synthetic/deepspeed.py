"""The DeepSpeed config of a synthetic job: that of `--parallel zero1` to `zero3`."""

from typing import Any

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.lang import say
from gpudoctor.model.records import frozen

ZERO = ("zero1", "zero2", "zero3")
_MICRO, _ACCUMULATE = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


@frozen
class Engine:
    """A config as the engine gets it."""

    config: dict[str, Any]
    note: str
    """What the engine holds that no estimate counts: the buffer through which gradients are reduced."""


def _sizes(shape: ModelShape) -> dict[str, int]:
    """transformers/integrations/deepspeed.py, trainer_config_finalize."""
    square = shape.hidden * shape.hidden
    return {
        "reduce_bucket_size": square, "stage3_prefetch_bucket_size": int(0.9 * square),
        "stage3_param_persistence_threshold": 10 * shape.hidden,
    }  # fmt: skip


def made(job: TrainingJob, shape: ModelShape) -> Engine:
    """The config that `--parallel zero1..3` and `offload` mean, with the buckets of transformers' Trainer."""
    zero: dict[str, Any] = {"stage": int(job.parallel[-1]), **_sizes(shape)}
    if job.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if job.offload == "params":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    config: dict[str, Any] = {_MICRO: job.batch, _ACCUMULATE: job.accumulate, "zero_optimization": zero}
    if job.dtype != "fp32":
        config[job.dtype] = {"enabled": True}
    if job.offload != "none":
        config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-4}}  # its own Adam for the CPU
    note = say(
        "DeepSpeed's buffers for reducing gradients are not in the estimate: "
        "reduce_bucket_size {elements:,} x 2 B = {gib:.2f} GiB",
        elements=zero["reduce_bucket_size"], gib=2 * zero["reduce_bucket_size"] / (1 << 30),
    )  # fmt: skip
    return Engine(config=config, note=note)
