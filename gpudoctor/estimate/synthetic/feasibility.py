"""Whether a synthetic job can run on this machine: what is asked for, what is installed, what fits."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpudoctor.errors import DoctorError, IncompleteError, UsageError
from gpudoctor.estimate.api import estimate_job
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Estimate, Verdict
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.synthetic.deepspeed import ZERO, Engine, made
from gpudoctor.estimate.synthetic.local_device import RunPlace
from gpudoctor.estimate.synthetic.program_source import WRITTEN, needs_of
from gpudoctor.lang import say, template
from gpudoctor.model.records import frozen
from gpudoctor.text import capitalised, size

# What a synthetic job cannot be, each with what it may be.


def refuse(job: TrainingJob, place: RunPlace) -> None:
    """Raise `UsageError` for what a synthetic job cannot be, with what it may be."""
    for wrong, flag, instead in _refusals(job, place):
        if wrong:
            raise UsageError("{flag}: {instead}", flag=flag, instead=instead)


def _refusals(job: TrainingJob, place: RunPlace) -> Iterator[tuple[bool, str, str]]:
    sharded = job.parallel in {"fsdp", "fsdp2"}
    zero = job.parallel in ZERO
    serves = job.context is not None or job.concurrency > 1 or job.kv_dtype != "bf16"
    both = f"--method {job.method} with --parallel {job.parallel}"
    yield job.mode != "train", "--mode inference", "a synthetic job trains; leave it out"
    yield serves, "context, concurrency and kv_dtype", "they are of inference, and a synthetic job trains"
    for name in ("tp", "pp", "cp", "ep"):
        degree = getattr(job, name)
        yield degree > 1, f"{name} {degree}", "a synthetic job runs data parallel; use ddp, zero1 to 3, fsdp, fsdp2"
    yield job.nodes > 1, f"nodes {job.nodes}", "a synthetic job runs on this machine alone; use --gpus"
    yield job.stack != "hf", f"stack {job.stack}", "a synthetic job runs the installed transformers; leave it out"
    yield job.method == "gptq-lora", "--method gptq-lora", "its packed weights cannot be made at random; use qlora"
    written = say("a synthetic job can have {written}", written=", ".join(WRITTEN))
    yield job.optimizer not in WRITTEN, f"--optimizer {job.optimizer}", written
    kind = f"checkpointing {job.checkpointing}"
    yield job.checkpointing in {"selective", "offloaded"}, kind, "transformers checkpoints whole layers; leave it out"
    yield job.loss != "stock", f"--loss {job.loss}", "a synthetic job has the loss of transformers; leave it out"
    for name in ("fused_norm", "lora_fused", "experts_quantized"):
        yield bool(getattr(job, name)), name, "transformers has none of it; leave it out"
    yield job.master_weights and not zero, "master_weights", "DeepSpeed has them: --parallel zero2"
    low = zero and job.mixed_precision != "no"
    yield low, f"mixed_precision {job.mixed_precision}", "DeepSpeed has its own: use --dtype"
    away = job.offload != "none" and not zero
    yield away, f"offload {job.offload}", "DeepSpeed does it: --parallel zero2 or zero3"
    split = job.quantized and (sharded or job.parallel == "zero3")
    yield split, both, "few-bit weights are kept whole; use ddp or zero2"
    one_type = say("FSDP shards tensors of one type; add --set lora_dtype={dtype}", dtype=job.dtype)
    yield job.adapted and sharded and job.lora_dtype != job.dtype, both, one_type
    flash = place.kind == "cpu" and job.attention == "flash"
    yield flash, "--attention flash", "its kernels are for CUDA, and this runs on the CPU; use sdpa or eager"
    fewer = template("this machine has {cards}; `gpudoctor estimate` computes what more of them would need")
    yield place.kind == "cuda" and job.world > place.cards, f"--gpus {job.world}", say(fewer, cards=place.cards)


# Whether a synthetic job fits into this machine.

HOST_BASE = 1 << 30
"""Host memory of a rank beside tensors: the interpreter, torch, transformers."""


class NoRoomError(DoctorError):
    """The job does not fit into this machine: what `estimate` gives for a card that does not hold a job."""

    exit_code = 1


def check_room(found: Estimate, place: RunPlace) -> None:
    """Raise `NoRoomError`, with the numbers, where the estimate says that it does not fit."""
    shape, job, cuda = found.shape, found.job, place.kind == "cuda"
    need = found.total_bytes if cuda else (found.total_bytes + HOST_BASE) * job.world  # on the host all ranks
    if need <= place.free and not (cuda and found.card.verdict is Verdict.DOES_NOT_FIT):
        return
    amounts = {"free": size(place.free), "bytes": size(place.bytes)}
    if cuda:
        said = say("{name} has {bytes}, {free} of it free", name=place.name, **amounts)
    else:
        said = say("{free} of this machine's {bytes} are free", **amounts)
    raise NoRoomError(
        "{name} with --method {method} does not fit: it needs {need}{several} {where}. "
        "{said}. What fits: gpudoctor estimate --model {name} --gpu {bytes} --fit",
        name=shape.name, method=job.method, need=size(need),
        several=say(" on each of {world} GPUs", world=job.world) if job.world > 1 and cuda else "",
        where=say("at {title}", title=found.peak.title), said=capitalised(said),
        bytes=size(place.bytes).replace(" ", ""),
    )  # fmt: skip


@frozen
class Synthetic:
    """A job that can run here."""

    shape: ModelShape
    job: TrainingJob
    place: RunPlace
    estimate: Estimate
    """Of one rank, on this machine's card; on the CPU as of a card."""
    source: Mapping[str, Any] | None = None
    """The object of the config.json that the model was read from; None for a known model."""
    engine: Engine | None = None
    assumptions: tuple[str, ...] = ()


def plan(
    shape: ModelShape, job: TrainingJob, place: RunPlace, *, source: Mapping[str, Any] | None = None,
    assumptions: tuple[str, ...] = (),
) -> Synthetic:  # fmt: skip
    """The job, checked. Raises `UsageError` for what cannot be written or run here, `IncompleteError` where a
    package is missing, `NoRoomError` where it does not fit."""
    refuse(job, place)
    job.check(shape)
    need_packages(job)
    found = estimate_job(shape, job, place.device)
    check_room(found, place)
    engine = made(job, shape) if job.parallel in ZERO else None
    said = (*assumptions, *found.assumptions, *([engine.note] if engine is not None else ()))
    return Synthetic(
        shape=shape, job=found.job, place=place, estimate=found, source=source, engine=engine,
        assumptions=tuple(dict.fromkeys(said)),
    )  # fmt: skip


def need_torch() -> None:
    """Raise `IncompleteError` where this interpreter has no torch."""
    _need([("torch", "a synthetic job")])


def need_packages(job: TrainingJob, installed: Callable[[str], bool] | None = None) -> None:
    """Raise `IncompleteError` for the first package that the job needs and this interpreter has not."""
    flag = f"--method {job.method}"
    wanted = [("torch", "a synthetic job"), ("transformers", "a synthetic job")]
    wanted += [("peft", flag)] if job.adapted else []
    wanted += [("bitsandbytes", flag), ("accelerate", flag)] if job.quantized else []
    own = needs_of(job.optimizer)
    wanted += [(own, f"--optimizer {job.optimizer}")] if own else []
    wanted += [("deepspeed", f"--parallel {job.parallel}")] if job.parallel in ZERO else []
    wanted += [("flash_attn", "--attention flash")] if job.attention == "flash" else []
    _need(wanted, installed)


def _need(wanted: list[tuple[str, str]], installed: Callable[[str], bool] | None = None) -> None:
    found = installed or (lambda name: importlib.util.find_spec(name) is not None)
    for name, what in wanted:
        if not found(name):
            package = name.replace("_", "-")
            raise IncompleteError(
                "{what} needs {name}, which {executable} has not: pip install {package}",
                what=what,
                name=name,
                executable=sys.executable,
                package=package,
            )
