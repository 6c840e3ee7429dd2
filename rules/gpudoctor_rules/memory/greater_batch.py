"""The next micro batch, for the rules that find room for it."""

from collections.abc import Iterator

from gpudoctor.analysis.run.memory_headroom import HeadroomDetail
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource
from gpudoctor.model.signs.memory import Choice, JobMemory
from gpudoctor.text import size
from gpudoctor_rules.memory.fields import answer, edits, known_job

_TWICE = 2


def greater_batch(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The micro batch that fits, by the estimate of a known job, else by the recording."""
    job = known_job(finding, patient)
    if job is not None:
        yield from _estimated_batch(finding.code, job, patient)
    else:
        yield from _measured_batch(finding)


def _estimated_batch(code: Code, job: JobMemory, patient: Patient) -> Iterator[Remedy]:
    """Accumulation folded into the batch as far as it goes, where there is any; the largest batch that fits."""
    folded = _folded(job)
    if folded is not None:
        batch, accumulate = folded
        changes: dict[str, Choice] = {"batch": batch, "accumulate": accumulate}
        yield _remedy(
            code, "accumulation", job, changes, patient, say("the same effective batch in fewer, greater steps")
        )
    greatest = job.batches[-1]
    if folded is None or folded[0] != greatest.changes["batch"]:
        yield _remedy(
            code, "batch", job, {"batch": greatest.changes["batch"]}, patient,
            say("check the learning rate again: the effective batch grows by the same factor"),
        )  # fmt: skip


def _measured_batch(finding: Finding) -> Iterator[Remedy]:
    """The batch that a recording has room for; nothing where it does not tell."""
    detail = finding.detail_of(HeadroomDetail)
    factor, samples = detail.factor, detail.samples
    if factor < _TWICE:
        return
    title = (
        say("use a micro batch of {samples:,.0f}", samples=samples * factor)
        if samples
        else say("use a micro batch {factor:.0f} times as large", factor=factor)
    )
    yield Remedy(
        id=f"{finding.code}-batch",
        title=title,
        steps=(
            f"batch_size={samples * factor:.0f}"
            if samples
            else say("{factor:.0f} times the batch size", factor=factor),
            "lower gradient accumulation by the same factor, or check the learning rate again",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        uses=frozenset({Resource.DEVICE_MEMORY}),
    )


def _folded(job: JobMemory) -> tuple[int, int] | None:
    """Micro batch and accumulation with the same product, the batch as great as fits."""
    batch, accumulate = int(job.values["batch"]), int(job.values["accumulate"])
    if "accumulate" not in job.places:
        return None
    best: tuple[int, int] | None = None
    for projection in job.batches:
        factor = int(projection.changes["batch"]) // batch
        if accumulate % factor == 0:
            best = (batch * factor, accumulate // factor)
    return best


def _remedy(code: Code, word: str, job: JobMemory, changes: dict[str, Choice], patient: Patient, why: str) -> Remedy:
    peak = next(item.peak for item in job.batches if item.changes["batch"] == changes["batch"])
    made = edits(job, changes, patient)
    lines = [answer(job, name, value, patient) for name, value in changes.items()]
    return Remedy(
        id=f"{code}-{word}",
        title=say("{lines} ({peak})", lines=", ".join(lines), peak=size(peak)),
        steps=(*lines, why),
        applicability=Applicability.UNSAFE if made else Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        sets=tuple((name, str(value)) for name, value in changes.items()),
        uses=frozenset({Resource.DEVICE_MEMORY}),
        edits=made,
    )
