"""What a synthetic job cannot be, each with what it may be."""

from collections.abc import Iterator

from gpudoctor.errors import UsageError
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.synthetic.deepspeed import ZERO
from gpudoctor.estimate.synthetic.optimizers import WRITTEN
from gpudoctor.estimate.synthetic.place import RunPlace


def refuse(job: TrainingJob, place: RunPlace, *, engine: bool = False) -> None:
    """Raise `UsageError` for what a synthetic job cannot be, with what it may be; `engine` is DeepSpeed's."""
    for wrong, flag, instead in _refusals(job, place, engine):
        if wrong:
            raise UsageError(f"{flag}: {instead}")


def _refusals(job: TrainingJob, place: RunPlace, engine: bool) -> Iterator[tuple[bool, str, str]]:
    sharded = job.parallel in {"fsdp", "fsdp2"}
    zero = job.parallel in ZERO
    serves = job.context is not None or job.concurrency > 1 or job.kv_dtype != "bf16"
    yield job.mode != "train", "--mode inference", "a synthetic job trains; leave it out"
    yield serves, "--context, --concurrency and --kv-dtype", "they are of inference, and a synthetic job trains"
    for name in ("tp", "pp", "cp", "ep"):
        degree = getattr(job, name)
        yield (
            degree > 1,
            f"--{name} {degree}",
            "a synthetic job runs data parallel; use ddp, zero1 to 3, fsdp, fsdp2",
        )
    yield job.nodes > 1, f"--nodes {job.nodes}", "a synthetic job runs on this machine alone; use --gpus"
    yield (
        job.stack != "hf",
        f"--stack {job.stack}",
        "a synthetic job runs the installed transformers; leave it out",
    )
    yield (
        job.method == "gptq-lora",
        "--method gptq-lora",
        "its packed weights cannot be made at random; use qlora",
    )
    yield (
        job.optimizer not in WRITTEN, f"--optimizer {job.optimizer}",
        f"a synthetic job can have {', '.join(WRITTEN)}",
    )  # fmt: skip
    yield (
        job.checkpointing in {"selective", "offloaded"}, f"--checkpoint-kind {job.checkpointing}",
        "transformers checkpoints whole layers; leave it out",
    )  # fmt: skip
    yield (
        job.loss != "stock",
        f"--loss {job.loss}",
        "a synthetic job has the loss of transformers; leave it out",
    )
    for name in ("fused_norm", "lora_fused", "experts_quantized"):
        yield (
            bool(getattr(job, name)),
            f"--{name.replace('_', '-')}",
            "transformers has none of it; leave it out",
        )
    yield (
        job.master_weights and not zero and not engine,
        "--master-weights",
        "DeepSpeed has them: --parallel zero2",
    )
    low = job.mixed_precision != "no"
    yield engine and low, f"--mixed-precision {job.mixed_precision}", "DeepSpeed has its own: use --dtype"
    yield (
        job.offload != "none" and not zero,
        f"--offload {job.offload}",
        "DeepSpeed does it: --parallel zero2 or zero3",
    )
    both = f"--method {job.method} with --parallel {job.parallel}"
    yield (
        job.quantized and (sharded or job.parallel == "zero3"),
        both,
        "few-bit weights are kept whole; use ddp or zero2",
    )
    yield (
        job.adapted and sharded and job.lora_dtype != job.dtype, both,
        f"FSDP shards tensors of one type; add --lora-dtype {job.dtype}",
    )  # fmt: skip
    yield (
        place.kind == "cpu" and job.attention == "flash", "--attention flash",
        "its kernels are for CUDA, and this runs on the CPU; use sdpa or eager",
    )  # fmt: skip
    yield (
        place.kind == "cuda" and job.world > place.cards, f"--gpus {job.world}",
        f"this machine has {place.cards}; `gpudoctor estimate` says what more of them would need",
    )  # fmt: skip
