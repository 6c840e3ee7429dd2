"""What a training keeps beside its weights: predictions of a whole evaluation, files that grow from save to save."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.lang import say
from gpudoctor.model.proof import LeakKind
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import size

_TIMES = 64
"""Numbers that are kept for each label, of which a metric needs the most likely one."""
_LEAST = 64 * 2.0**20
"""Bytes of predictions that are worth an edit."""
_SAVES = 5
"""Saves that tell."""
_MORE, _MOST = 1.01, 1.5
"""How many times as large as the one before each file is, and the last as the second."""


def kept(recording: Recording) -> Iterator[tuple[LeakKind, str, float, LinePlace | None]]:
    """What is kept, a sentence on it, its bytes, and the line."""
    for shape, each, taken, *at in _rows(recording, "predictions"):
        if taken >= _LEAST and each >= _TIMES:
            text = say(
                "An evaluation keeps the predictions of the whole set, {shape} numbers ({bytes}), for compute_metrics: "
                "{each:,} for each label.",
                shape=shape,
                bytes=size(taken),
                each=each,
            )
            yield LeakKind.PREDICTIONS, text, taken, _place(*at)
    files: dict[tuple[Any, ...], list[float]] = {}
    for name, _, taken, *at in _rows(recording, "saves"):
        files.setdefault((name, *at), []).append(taken)
    for (name, *at), (_, *sizes) in files.items():  # before the first one some states are empty
        if len(sizes) < _SAVES or sizes[-1] < _MOST * sizes[0]:
            continue
        if all(later >= _MORE * before for before, later in pairwise(sizes)):
            text = say(
                "The saved file {name} grows with every save, from {first} to {last} in {saves} saves: "
                "something in it is only added to.",
                name=name,
                first=size(sizes[0]),
                last=size(sizes[-1]),
                saves=len(sizes),
            )
            yield LeakKind.FILES, text, sizes[-1] - sizes[0], _place(*at)


def _rows(recording: Recording, kind: str) -> list[list[Any]]:
    """What the first rank's last record of a kind has."""
    memory = recording.ranks[0].of("memory") if recording.ranks else ()
    records = [item for item in memory if item.get("kind") == kind]
    return list(records[-1].get("growth") or ()) if records else []


def _place(path: str | None, line: int | None) -> LinePlace | None:
    return LinePlace(path=path, line=line) if path and line else None
