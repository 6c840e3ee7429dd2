"""The training thread's time by phase and stack, of what the sampler of a recording saw.

A record counts looks by the user's innermost line, and beside it what led to that line (up to four functions of
the user's outside of all modules) and what ran below it. Of several ways to a line and several functions below
it the record has the shares of each alone, so their combinations are taken for independent.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from gpudoctor.analysis.run.line_costs import relative
from gpudoctor.model.flames import FlameFrame, FlameProfile
from gpudoctor.model.signs.recording import Process, Record, Recording

_INTERVAL = 0.02
"""Seconds of a look where a record does not say."""
_MODULE = FlameFrame("(inside a module's call)")
_LIBRARY = "(no line of the user's)"
_LEAST = 1e-3
"""Looks below which a part is left out."""


def flame_profiles(recording: Recording) -> list[FlameProfile]:
    """A profile a rank that has samples."""
    profiles = [
        FlameProfile(name=f"rank {process.rank}", stacks=_stacks(recording, process)) for process in recording.ranks
    ]
    return [profile for profile in profiles if profile.stacks]


def _stacks(recording: Recording, process: Process) -> dict[tuple[FlameFrame, ...], float]:
    stacks: defaultdict[tuple[FlameFrame, ...], float] = defaultdict(float)
    for record in process.of("lines"):
        each = float(record.get("interval") or _INTERVAL)
        callers, leaves = _by_row(record, "callers"), _by_row(record, "leaves")
        for row, (phase, path, line, function, looks) in enumerate(record.get("counts", ())):
            if not looks:
                continue
            own = _frame(recording, path, line, function) if path else FlameFrame(_LIBRARY)
            first = FlameFrame(str(phase).replace("_", " "))
            for above, share in _shares([(_above(recording, item), item[-1]) for item in callers.get(row, ())], looks):
                for below, part in _shares([((_leaf(item),), item[-1]) for item in leaves.get(row, ())], looks):
                    weight = looks * share * part
                    stack = (first, *above, own, *below)
                    if weight >= _LEAST:
                        stacks[stack] += weight * each
    return dict(stacks)


def _by_row(record: Record, name: str) -> "dict[int, list[Sequence[Any]]]":
    found: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for item in record.get(name, ()):
        found[int(item[0])].append(item)
    return found


def _above(recording: Recording, item: "Sequence[Any]") -> tuple[FlameFrame, ...]:
    """What led to a line, the outermost first."""
    _, inside, chain, _ = item
    frames = tuple(_frame(recording, path, line, function) for path, line, function in reversed(chain))
    return (*frames, _MODULE) if inside else frames


def _leaf(item: "Sequence[Any]") -> FlameFrame:
    _, path, function, _ = item
    return FlameFrame(str(function), str(path or ""))


def _frame(recording: Recording, path: str, line: int, function: str) -> FlameFrame:
    return FlameFrame(str(function or "?"), relative(recording, str(path)), int(line or 0))


def _shares(
    ways: "list[tuple[tuple[FlameFrame, ...], float]]", looks: float
) -> Iterator[tuple[tuple[FlameFrame, ...], float]]:
    """Each way with its share of the looks; what none accounts for has no frames."""
    total = sum(weight for _, weight in ways)
    whole = max(looks, total)
    for frames, weight in ways:
        yield frames, weight / whole
    if whole > total:
        yield (), 1 - total / whole
