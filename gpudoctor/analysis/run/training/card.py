"""The training card: what a run really trained, a line for each side of it that was seen."""

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training import integer
from gpudoctor.analysis.run.training.data import batch, evaluation, labels
from gpudoctor.analysis.run.training.gradients import gradients
from gpudoctor.analysis.run.training.logged_numbers import said as logged
from gpudoctor.analysis.run.training.parameters import parameters
from gpudoctor.analysis.run.training.ranks import ranks
from gpudoctor.analysis.run.training.resumed import states
from gpudoctor.analysis.run.training.schedule import schedule
from gpudoctor.lang import say, template, term
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
    lines = (make(recording) for make in LINES)
    return tuple(line for line in lines if line is not None)


def shown_batch(recording: Recording) -> Mapping[str, Any]:
    """The first batch that was trained on, where it was asked for: pictures as bytes, or text in parts."""
    process = next(iter(recording.ranks), None)
    if process is None:
        return {}
    roles = {item.get("id"): item.get("role") for item in process.of("loader")}
    # One of the training, else any.
    first = min(process.of("shown"), key=lambda item: roles.get(item.get("loader")) != "training", default=None)
    if first is None:
        return {}
    text = []
    for row in first.get("text") or ():
        text.append(tuple((str(words), bool(trained)) for words, trained in row))
    width = integer(first, "width")
    height = integer(first, "height")
    pictures: list[bytes] = []
    with suppress(ValueError):
        pictures = [base64.b64decode(each) for each in first.get("pictures") or ()]
    whole = [each for each in pictures if len(each) == 3 * width * height]  # red, green and blue
    return {"text": tuple(text), "pictures": tuple(whole), "width": width}


# What a verdict and a trial say of it.

_SHARES = ("share", "unchanged", "clipped")
"""Facts that are shares of 1, and are shown in percent."""
_NUMBERS = (int, float)
_MUST = (template("batch"), template("labels"), template("parameters"), template("schedule"))
"""Lines that every training has: without one of them it was not seen."""
_MAY = (template("gradients"), template("evaluation"))
OTHERS = (template("ranks"), template("resumed"), template("logged"))
"""Lines that say nothing of a fault, or only where there is something to see."""


def seen(training: Sequence[CardLine]) -> Mapping[str, bool]:
    """Whether each line that must be there is; and the others that are."""
    lines = {line.name for line in training}
    areas = {name: name in lines for name in _MUST}
    return areas | {name: True for name in _MAY if name in lines}


def examined(training: Sequence[CardLine]) -> str:
    """A sentence that names what was seen of the training, with a blank before it; "" if nothing was."""
    names = [term(name) for name, is_seen in seen(training).items() if is_seen]
    if not names:
        return ""
    return say(" gpudoctor examined its {areas}.", areas=joined(names))


def changed(line: str, before: Recording, after: Recording) -> str:
    """The first number of a line that two runs tell apart; "" where there is none.

    `labels, share: 0 %, 12 % with it`.
    """
    old = _facts(before, line)
    new = _facts(after, line)
    for name, value in old.items():
        other: Any = new.get(name)
        # A truth is no number, though Python counts with it.
        if type(value) in _NUMBERS and type(other) in _NUMBERS and value != other:
            text = template("{line}, {fact}: {before}, {after} with it")
            shown = percent if name in _SHARES else number
            return say(text, line=term(line), fact=name.replace("_", " "), before=shown(value), after=shown(other))
    return ""


def _facts(recording: Recording, line: str) -> Mapping[str, Any]:
    """What a line of a run's card says; nothing where it has none."""
    return next((item.facts for item in training_card(recording) if item.name == line), {})
