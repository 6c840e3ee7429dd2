"""Whether a synthetic job fits into this machine, and what would."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpudoctor.errors import DoctorError, UsageError
from gpudoctor.estimate.api import estimate_job
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.measure.cpu import on_cpu
from gpudoctor.estimate.measure.launch import HOST_BASE
from gpudoctor.estimate.presets import SIZES, preset
from gpudoctor.estimate.result import Estimate, Verdict
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.synthetic.place import RunPlace
from gpudoctor.estimate.synthetic.refusals import refuse
from gpudoctor.text import size

_CHANGES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"method": "lora"}, "--method lora"), ({"method": "qlora"}, "--method qlora"),
    ({"checkpointing": "layer"}, "--checkpointing"), ({"batch": 1}, "--batch 1"), ({"seq": 512}, "--seq 512"),
)  # fmt: skip
"""Single changes and their flags, mildest first."""
_SMALLER: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, ""), ({"batch": 1}, " --batch 1"), ({"batch": 1, "method": "qlora"}, " --batch 1 --method qlora"),
)  # fmt: skip
"""What goes with a smaller model where that alone is not enough."""


class NoRoomError(DoctorError):
    """The job does not fit into this machine: what `estimate` gives for a card that does not hold a job."""

    exit_code = 1


def check_room(found: Estimate, place: RunPlace) -> None:
    """Raise `NoRoomError`, with the numbers and what would fit, where the estimate says that it does not."""
    if _fits(found, place):
        return
    shape, job = found.shape, found.job
    need, where = _needed(found, place), f"at {found.peak.title}"
    if place.kind == "cuda":
        said = f"{place.name} has {size(place.bytes)}, {size(place.free)} of it free"
    else:
        said = f"{size(place.free)} of this machine's {size(place.bytes)} are free"
    several = f" on each of {job.world} GPUs" if job.world > 1 and place.kind == "cuda" else ""
    hints = list(_hints(found, place))
    fits = f" What fits: {' or '.join(hints)}." if hints else ""
    raise NoRoomError(
        f"{shape.name} with --method {job.method} does not fit: it needs {size(need)}{several} {where}, and "
        f"{said}.{fits} Other cards: gpudoctor estimate --model {shape.name} --method {job.method} --gpu H100"
    )


def _needed(found: Estimate, place: RunPlace) -> int:
    """Bytes of a card, or of the host by all ranks."""
    if place.kind == "cuda":
        return found.total_bytes
    return (on_cpu(found, foreach=False).peak.bytes + HOST_BASE) * found.job.world


def _fits(found: Estimate, place: RunPlace) -> bool:
    if place.kind == "cuda":
        return found.card.verdict is not Verdict.DOES_NOT_FIT and found.total_bytes <= place.free
    return _needed(found, place) <= place.free


def _hints(found: Estimate, place: RunPlace) -> Iterator[str]:
    """Single changes that make it fit, in the words of flags."""
    job = found.job
    for changes, words in _CHANGES:
        same = all(getattr(job, key) == value for key, value in changes.items())
        if same or (job.adapted and changes.get("method") == "lora") or job.seq <= changes.get("seq", 0):
            continue
        tried = _tried(found.shape, replace(job, **changes), place)
        if tried is not None:
            yield f"{words} ({size(_needed(tried, place))})"
            break
    sizes = sorted(((preset(name).parameters, word, name) for word, name in SIZES.items()), reverse=True)
    for changes, words in _SMALLER:
        for count, word, name in sizes:
            smaller = count < found.shape.parameters.total
            tried = _tried(preset(name).shape, replace(job, **changes), place) if smaller else None
            if tried is not None:
                yield f"--model {word}{words} ({name}, {size(_needed(tried, place))})"
                return


def _tried(shape: ModelShape, job: TrainingJob, place: RunPlace) -> Estimate | None:
    """The changed job where it can be and fits."""
    try:
        refuse(job, place)
        found = estimate_job(shape, job, place.device)
    except UsageError:
        return None
    return found if _fits(found, place) else None
