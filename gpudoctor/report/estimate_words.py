"""Words and numbers of an estimate for people: the same in text, Markdown and plots.

Imports nothing of the report on findings: an estimate has to be there in a tenth of a second.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor.estimate.answer import Answer, label
from gpudoctor.estimate.fit import Room
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Device, Estimate, Line, Verdict
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.tables import stack
from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.text import capitalised, count, duration, joined, size

if TYPE_CHECKING:
    from gpudoctor.estimate.traced.traced_estimate import Traced

FLAGS = (
    "method", "lora_rank", "seq", "batch", "gpus", "parallel", "dtype", "optimizer", "attention", "loss", "mode",
    "checkpointing",
)  # fmt: skip
"""Fields that have a flag of their own; the others are keys of `--set`."""
_CHECKPOINTING = {"none": say("no checkpointing"), "layer": term("checkpointing")}


def parameters_text(shape: ModelShape) -> str:
    """`6.74 B parameters`."""
    count = shape.parameters.total
    for step, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if count >= step:
            return say("{count:.3g} {unit} parameters", count=count / step, unit=unit)
    return say("{count:,} parameters", count=count)


_BELOW = 0.95
"""Of the allocated bytes, where the card's interval begins so far below them that a reader asks why."""


def card_text(card: Device) -> str:
    """`RTX 4090, 24 GiB`; a size alone is not said twice."""
    memory = size(card.bytes)
    return memory if memory.replace(" ", "") == card.name else say("{name}, {memory}", name=card.name, memory=memory)


def job_text(job: TrainingJob) -> str:
    """What the job is, the defaults included."""
    if job.mode == "inference":
        parts = [
            term("inference"),
            say("context {context:,}", context=job.context or job.seq),
            say("{concurrency:,} at a time", concurrency=job.concurrency),
            job.dtype,
            say("cache {kv_dtype}", kv_dtype=job.kv_dtype),
        ]
        return concatenated(", ", parts)
    parts = [say("sequence {seq:,}", seq=job.seq), say("batch {batch:,}", batch=job.batch), job.dtype]
    if job.mixed_precision != "no":
        parts.append(say("autocast {mixed_precision}", mixed_precision=job.mixed_precision))
    if job.accumulate > 1:
        parts.append(say("accumulate {accumulate:,}", accumulate=job.accumulate))
    parts += [
        job.optimizer,
        _CHECKPOINTING.get(job.checkpointing, say("{checkpointing} checkpointing", checkpointing=job.checkpointing)),
        say("{attention} attention", attention=job.attention),
        say("{loss} loss", loss=job.loss),
    ]
    if job.world > 1 or job.parallel != "none":
        parts += [count(job.world, "GPU"), job.parallel]
        parts += [f"{name} {getattr(job, name)}" for name in ("tp", "pp", "cp", "ep") if getattr(job, name) > 1]
    if job.offload != "none":
        parts.append(say("{offload} on the host", offload=job.offload))
    return concatenated(", ", parts)


def libraries_text(job: TrainingJob) -> str:
    """Whose code is taken to run, in which releases."""
    return say("libraries: {title} (stack {stack})", title=stack(job.stack).title, stack=job.stack)


def code_text(answer: Answer) -> str:
    """Whose code is taken to run, or ran."""
    if not answer.traced:
        return libraries_text(answer.shown.job)
    versions = ", ".join(f"{name} {version}" for name, version in answer.traced[0].libraries.items())
    return say("libraries: {versions}", versions=versions)


def means_text(answer: Answer) -> str:
    """What the allocated bytes are and how they were found."""
    how = say("computed by formula; nothing was run")
    if answer.traced:
        how = say("traced through the code that ran") + say(" on fake tensors, without a GPU")
    means = say("allocated is what torch.cuda.max_memory_allocated reports on the fullest GPU, {how}", how=how)
    if any(each.card.used[0] < _BELOW * each.total_bytes and each.fits for each in answer.estimates):
        means = say("{means}; fused kernels may need less, down to where the card's interval begins", means=means)
    return means


def traced_text(traced: "Traced") -> str:
    """What was traced, and how the rest was found."""
    depths = [f"{depth:,}" for depth in traced.depths]
    if not traced.depths or traced.depths[0] == traced.layers:
        return say("traced in full in {seconds}", seconds=duration(traced.seconds))
    return say(
        "traced at {depths} of {layers:,} blocks in {seconds}",
        depths=joined(depths),
        layers=traced.layers,
        seconds=duration(traced.seconds),
    )


def verdict_text(verdict: Verdict | None) -> str:
    """The verdict's words; `tight` is its name in JSON."""
    if verdict is Verdict.TIGHT:
        return say("uncertain")
    return term(verdict.value) if verdict is not None else ""


def source_text(line: Line) -> str:
    """Where a line's formula comes from: `DeepSpeed 0.16 (analytic)`."""
    from gpudoctor.report.formula_words import source_text as spoken  # for --explain only

    return say("{source} ({provenance})", source=spoken(line.source), provenance=term(line.provenance.value))


def headline(answer: Answer) -> str:
    """The answer in a sentence."""
    estimates, card = answer.estimates, answer.device
    if card is None:
        needs = concatenated(
            ", ",
            (say("{label} {total_bytes}", label=label(each), total_bytes=size(each.total_bytes)) for each in estimates),
        )
        return say("Allocated at the peak, on one GPU: {needs}.", needs=needs)
    if len(estimates) == 1:
        reading = estimates[0].card
        said_of_it = say(
            "{label} {verdict_text}: {reason}.",
            label=capitalised(label(estimates[0])),
            verdict_text=say("is uncertain") if reading.verdict is Verdict.TIGHT else verdict_text(reading.verdict),
            reason=reading.reason,
        )
        return _with_room(answer, said_of_it)
    said = []
    for verdict, one, many in (
        (Verdict.FITS, "fits", "fit"),
        (Verdict.TIGHT, say("is uncertain"), say("are uncertain")),
        (Verdict.DOES_NOT_FIT, say("does not fit"), say("do not fit")),
    ):
        names = [label(each) for each in estimates if each.card.verdict is verdict]
        if names:
            said.append(say("{names} {one}", names=joined(names), one=term(one if len(names) == 1 else many)))
    verdicts = say("{said} ({card_text}).", said=capitalised(concatenated("; ", said)), card_text=card_text(card))
    return _with_room(answer, verdicts)


def _with_room(answer: Answer, verdict: str) -> str:
    """The verdict, and the largest batch or sequence of the job that is shown."""
    room = room_text(answer.room, answer.shown.job) if answer.room is not None else ""
    return (
        say("{verdict} {label} has {room}.", verdict=verdict, label=capitalised(label(answer.shown)), room=room)
        if room
        else verdict
    )


def room_text(room: Room, job: TrainingJob) -> str:
    """What else there is room for."""
    what, unit = (
        (say("sequences at a time"), term("context")) if job.mode == "inference" else (term("batch"), term("sequence"))
    )
    parts = []
    now = job.concurrency if job.mode == "inference" else job.batch
    if room.batch is not None and room.batch > now:
        parts.append(
            say("{batch:,} {what}", batch=room.batch, what=what)
            if job.mode == "inference"
            else say("{what} {batch:,}", what=what, batch=room.batch)
        )
    if room.seq is not None and room.seq > (job.context or job.seq):
        parts.append(say("{unit} {seq:,}", unit=unit, seq=room.seq))
    return say("room for {parts}", parts=concatenated(" or ", parts)) if parts else ""


def flags_text(changes: Mapping[str, Any]) -> str:
    """Changes to a job as they are typed: `--method lora --no-checkpointing --set tp=2`."""
    switch = {"none": "--no-checkpointing", "layer": "--checkpointing"}
    words = []
    for name, value in changes.items():
        if name == "checkpointing" and value in switch:
            words.append(switch[value])
        else:
            named = name in FLAGS and name != "checkpointing"
            words.append(f"--{name.replace('_', '-')} {value}" if named else f"--set {name}={value}")
    return " ".join(words) or say("as asked")


def interval(estimate: Estimate) -> str:
    """What nvidia-smi will show: `7.0 to 9.6 GiB`; nothing above what the card has."""
    if estimate.card.verdict is Verdict.DOES_NOT_FIT:
        return say("out of memory")
    low, high = map(size, estimate.card.used)
    return low if low == high else say("{low} to {high}", low=low.removesuffix(" GiB"), high=high)
