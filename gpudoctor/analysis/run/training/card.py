"""The training card: what a run really trained, a line for each side of it that was seen."""

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.data import batch, evaluation, labels
from gpudoctor.analysis.run.training.gradients import gradients
from gpudoctor.analysis.run.training.logged_numbers import said as logged
from gpudoctor.analysis.run.training.parameters import parameters
from gpudoctor.analysis.run.training.ranks import ranks
from gpudoctor.analysis.run.training.resumed import states
from gpudoctor.analysis.run.training.schedule import schedule
from gpudoctor.lang import say, template, term
from gpudoctor.lang.message import Message
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Finding
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import joined, number, percent

Card: TypeAlias = Sequence[CardLine] | None
"""None of what is no run."""
LINES: tuple[Callable[[Recording], CardLine | None], ...] = (
    batch,
    labels,
    parameters,
    schedule,
    gradients,
    ranks,
    evaluation,
    states,
    logged,
)
"""In the order of the card; a line of which nothing was seen is None."""


@once
def training_card(recording: Recording) -> tuple[CardLine, ...]:
    """What was seen of the training, most of it from the first rank."""
    return tuple(line for make in LINES if (line := make(recording)) is not None)


def shown_batch(recording: Recording) -> Mapping[str, Any]:
    """The first batch that was trained on, where it was asked for: pictures as bytes, or text in parts."""
    process = next(iter(recording.ranks), None)
    roles = {item.get("id"): item.get("role") for item in process.of("loader")} if process is not None else {}
    found = process.of("shown") if process is not None else ()
    first = min(found, key=lambda item: roles.get(item.get("loader")) != "training", default=None)
    if first is None:
        return {}
    width, height = int(first.get("width") or 0), int(first.get("height") or 0)
    pictures: tuple[bytes, ...] = ()
    with suppress(ValueError):
        pictures = tuple(map(base64.b64decode, first.get("pictures") or ()))
    return {
        "text": tuple(tuple((str(words), bool(trained)) for words, trained in row) for row in first.get("text") or ()),
        "pictures": tuple(each for each in pictures if len(each) == 3 * width * height),
        "width": width,
    }


# What a verdict and a trial say of it.

_SHARES = ("share", "unchanged", "clipped")
_MUST = (template("batch"), template("labels"), template("parameters"), template("schedule"))
"""Lines that every training has: without one of them it was not seen."""
_MAY = (template("gradients"), template("evaluation"))
OTHERS = (template("ranks"), template("resumed"), template("logged"))
"""Lines that say nothing of a fault, or only where there is something to see."""


def seen(training: Sequence[CardLine]) -> Mapping[str, bool]:
    """Whether each line that must be there is; and the others that are."""
    lines = {line.name for line in training}
    return {name: name in lines for name in (*_MUST, *_MAY) if name in lines or name in _MUST}


def examined(training: Sequence[CardLine]) -> str:
    """A sentence that names what was seen of the training, with a blank before it; "" if nothing was."""
    names = [term(name) for name, is_seen in seen(training).items() if is_seen]
    return say(" gpudoctor examined its {areas}.", areas=joined(names)) if names else ""


def changed(line: str, finding: Finding, before: Recording, after: Recording) -> str:
    """The number of a line that two runs tell apart, one that the finding says before others; "" where there is none.

    `labels, share: 0 %, 12 % with it`.
    """
    old, new = ({item.name: item.facts for item in training_card(run)}.get(line, {}) for run in (before, after))
    said = [item.value for item in finding.evidence if isinstance(item, Measurement)] + _numbers(finding.message)
    near = {round(value, 6): -place for place, value in enumerate(reversed(said)) if isinstance(value, int | float)}
    apart = [name for name in old if {type(old[name]), type(new.get(name))} <= {int, float} and old[name] != new[name]]
    name = min(apart, key=lambda name: near.get(round(old[name], 6), 1), default="")
    if not name:
        return ""
    text, shown = template("{line}, {fact}: {before}, {after} with it"), percent if name in _SHARES else number
    fact = name.replace("_", " ")
    return say(text, line=term(line), fact=fact, before=shown(old[name]), after=shown(new[name]))


def _numbers(part: object) -> list[Any]:
    """What is said in a message, in its order."""
    return (
        [value for inner in part.parts.values() for value in _numbers(inner)] if isinstance(part, Message) else [part]
    )
