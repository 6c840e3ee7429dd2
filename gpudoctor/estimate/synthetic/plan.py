"""Whether a synthetic job can run on this machine: what is asked for, what is installed, what fits."""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass

from gpudoctor.errors import IncompleteError
from gpudoctor.estimate.api import estimate_job
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Estimate
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.synthetic.deepspeed import ZERO, Engine
from gpudoctor.estimate.synthetic.optimizers import needs_of
from gpudoctor.estimate.synthetic.place import RunPlace
from gpudoctor.estimate.synthetic.refusals import refuse
from gpudoctor.estimate.synthetic.room import check_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """A job that can run here."""

    shape: ModelShape
    job: TrainingJob
    place: RunPlace
    estimate: Estimate
    """Of one rank, on this machine's card; on the CPU as of a card (`measure.cpu.on_cpu` says what differs)."""
    source: str | None = None
    """The config.json that the model was read from; None for a known model."""
    engine: Engine | None = None
    """DeepSpeed's config, where its engine trains."""
    engine_path: str | None = None
    """The user's own file of it, where it can be used as it is."""
    assumptions: tuple[str, ...] = ()


def plan(
    shape: ModelShape, job: TrainingJob, place: RunPlace, *, source: str | None = None,
    engine: Engine | None = None, engine_path: str | None = None, assumptions: tuple[str, ...] = (),
) -> Synthetic:  # fmt: skip
    """The job, checked. Raises `UsageError` for what cannot be written or run here, `IncompleteError` where a
    package is missing, `NoRoomError` where it does not fit."""
    refuse(job, place, engine=engine is not None)
    job.check(shape)
    need_packages(job, engine)
    found = estimate_job(shape, job, place.device)
    check_room(found, place)
    said = (*assumptions, *found.assumptions, *(engine.notes if engine is not None else ()))
    return Synthetic(
        shape=shape, job=found.job, place=place, estimate=found, source=source, engine=engine,
        engine_path=engine_path, assumptions=tuple(dict.fromkeys(said)),
    )  # fmt: skip


def need_torch(installed: Callable[[str], bool] | None = None) -> None:
    """Raise `IncompleteError` where this interpreter has no torch."""
    _need([("torch", "a synthetic job")], installed)


def need_packages(
    job: TrainingJob, engine: Engine | None, installed: Callable[[str], bool] | None = None
) -> None:
    """Raise `IncompleteError` for the first package that the job needs and this interpreter has not."""
    flag = f"--method {job.method}"
    wanted = [("torch", "a synthetic job"), ("transformers", "a synthetic job")]
    wanted += [("peft", flag)] if job.adapted else []
    wanted += [("bitsandbytes", flag), ("accelerate", flag)] if job.quantized else []
    own = needs_of(job.optimizer)
    wanted += [(own, f"--optimizer {job.optimizer}")] if own else []
    wanted += (
        [("deepspeed", f"--parallel {job.parallel}" if job.parallel in ZERO else "--deepspeed")]
        if engine
        else []
    )
    wanted += [("flash_attn", "--attention flash")] if job.attention == "flash" else []
    _need(wanted, installed)


def _need(wanted: list[tuple[str, str]], installed: Callable[[str], bool] | None) -> None:
    found = installed or (lambda name: importlib.util.find_spec(name) is not None)
    for name, what in wanted:
        if not found(name):
            package = name.replace("_", "-")
            raise IncompleteError(f"{what} needs {name}, which {sys.executable} has not: pip install {package}")
