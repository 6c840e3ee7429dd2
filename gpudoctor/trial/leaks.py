"""The bisection of a leak: lines that keep something are left out, containers let go, until the growth stops.

Each try is a run of as many steps as the baseline's, judged by the same trend. First the suspected lines, those
that the recording names before those that only the source shows: all of them left out, then one by one. At
the guilty line the smallest change that still stops the growth: the graph cut, a number instead of a tensor,
the last ones only. Where no line is guilty: containers by name, hooks, reference cycles, a profiler.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpudoctor.mend.plan import make_plan
from gpudoctor.model import (
    Code,
    Confidence,
    Finding,
    Measurement,
    Patient,
    Ranked,
    Remedy,
    Severity,
    SourceSpan,
)
from gpudoctor.model.leak import LeakSearch, LeakTry
from gpudoctor.model.proof import Cure
from gpudoctor.model.reading.keeping import LAST, Keep, Keeping, keeping_at
from gpudoctor.model.reading.recordings.growth import rise
from gpudoctor.model.reading.recordings.judged import script_at
from gpudoctor.model.remedy import Applicability, Edit, Effort, TextEdit
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.arm import Arm
from gpudoctor.trial.bench import Bench, Lap
from gpudoctor.trial.candidates import edited_arm
from gpudoctor.trial.cure import growth_rate, rate_text
from gpudoctor.trial.window import steps_made

CODES = ("MEM001", "MEM002", "MEM003")
"""Findings of memory that grows, those that were measured first."""
_GONE, _LESS = 0.2, 0.7
"""Growth as a share of the baseline's, up to which it is gone, and up to which it is less."""
_LINES = 4
"""Suspected lines that are tried."""
_SLOWER, _SPARE = 2.5, 20.0
_RANK = {"gone": 0, "less": 1}


@dataclass(slots=True)
class _Search:
    """The state of one search."""

    bench: Bench
    patient: Patient
    finding: Finding
    recording: Recording
    seconds: float
    """Of the baseline."""
    deadline: float
    doing: Callable[[str], None]
    rate: float = 0.0
    steps: int = 0
    tries: list[LeakTry] = field(default_factory=list)
    known: dict[tuple[Edit, ...], Cure] = field(default_factory=dict)
    """Edits that were tried, and whether they stop the growth."""

    @property
    def limit(self) -> float:
        """Seconds that one run may take."""
        return _SPARE + _SLOWER * self.seconds

    def left(self) -> bool:
        """Whether there is time for another run."""
        return time.monotonic() + _SPARE + self.seconds < self.deadline

    def run(self, change: str, arm: Arm, place: SourceSpan | None = None) -> LeakTry:
        """One run, judged and noted."""
        self.doing(change)
        lap = self.bench.look(arm, steps=self.steps, seconds=self.limit, machine=True)
        made = _judged(change, place, lap, self.rate, str(self.finding.code), bool(arm.overrides))
        self.tries.append(made)
        return made


def search(
    bench: Bench,
    patient: Patient,
    ranked: Sequence[Ranked],
    *,
    seconds: float,
    budget: float,
    doing: Callable[[str], None],
) -> tuple[LeakSearch, Mapping[tuple[Edit, ...], Cure]] | None:
    """What holds the memory that grows, and what edits do about it; None where no leak was found.

    `seconds` is how long the baseline took, `budget` what the search may take.
    """
    recording = patient.recording
    finding = _finding(ranked)
    rate = growth_rate(recording, str(finding.code)) if finding is not None else None
    if finding is None or rate is None or rate <= 0:
        return None
    began = time.monotonic()
    state = _Search(bench, patient, finding, recording, seconds, began + budget, doing)
    state.rate, state.steps = rate, steps_made(recording)
    lines = _suspects(patient, ranked)
    guilty = _guilty_line(state, lines)
    keep, holder = "", ""
    if guilty is not None:
        keep, holder = _least(state, guilty), guilty.target
    else:
        holder = _generic(state, bool(recording.workers))
    made = LeakSearch(
        code=str(finding.code), bytes_per_step=rate, steps=state.steps, tries=tuple(state.tries), holder=holder,
        place=_span(guilty) if guilty is not None else None, keep=keep, seconds=time.monotonic() - began,
        words=_words(state, guilty, holder),
    )  # fmt: skip
    return made, state.known


def _finding(ranked: Sequence[Ranked]) -> Finding | None:
    """The leak that a run has shown."""
    found = {str(item.finding.code): item.finding for item in reversed(ranked)}
    known = [found[code] for code in CODES if code in found]
    return next((item for item in known if item.confidence is Confidence.CONFIRMED), None)


def _suspects(patient: Patient, ranked: Sequence[Ranked]) -> list[Keeping]:
    """Statements that keep something, at the places that the findings of growing memory name."""
    found: dict[tuple[str, int], Keeping] = {}
    for code in CODES:
        for item in ranked:
            if item.finding.code != code:
                continue
            for span in item.finding.evidence:
                script = script_at(patient, span.path) if isinstance(span, SourceSpan) else None
                keeping = keeping_at(script, span.line) if script and isinstance(span, SourceSpan) else None
                if keeping is not None and keeping.edits(Keep.NOTHING):
                    found.setdefault((keeping.script.path, keeping.line), keeping)
    return list(found.values())[:_LINES]


def _guilty_line(state: _Search, lines: Sequence[Keeping]) -> Keeping | None:
    """The line without which the growth is gone; the one that is worth most where several share it."""
    if len(lines) > 1 and state.left():
        all_out = state.run("without the lines that keep something", _without(lines))
        if all_out.outcome == "as before":
            return None
    best: tuple[int, float, Keeping] | None = None
    for keeping in lines:
        if not state.left():
            break
        made = state.run(f"without {_short(keeping)}", _without([keeping]), _span(keeping))
        if made.outcome in _RANK:
            here = (_RANK[made.outcome], made.bytes_per_step or 0.0, keeping)
            best = min(best, here, key=lambda item: item[:2]) if best else here
        if made.outcome == "gone":
            break
    return best[2] if best else None


def _least(state: _Search, keeping: Keeping) -> str:
    """The smallest change of the line that still stops the growth."""
    for keep in (Keep.DETACHED, Keep.NUMBER, Keep.LAST):
        edits = keeping.edits(keep)
        if not edits or not state.left():
            continue
        last = keep is Keep.LAST
        what = f"only the last {LAST} of {keeping.target}" if last else keeping.written(keep)
        made = state.run(f"{what} at {_short(keeping)}", _arm(edits), _span(keeping))
        if made.bytes_per_step is not None and not last:
            state.known[edits] = _cure(state, made)
        if made.outcome == "gone":
            return str(keep.value)
    return str(Keep.NOTHING.value)


def _cure(state: _Search, made: LeakTry) -> Cure:
    """A try as the proof of a remedy that makes the same edit."""
    after = made.bytes_per_step or 0.0
    return Cure(
        code=str(state.finding.code),
        name=state.finding.name,
        gone=made.outcome == "gone",
        words=f"grew {rate_text(state.rate)} a step, {rate_text(after)} with it",
        steps=state.steps,
        also=CODES if made.outcome == "gone" else (),
        before=state.rate,
        after=after,
        unit="B",
    )


_OTHERS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("containers that grow, cleared every 10 steps", "a container", {"leak.containers": ""}),
    (
        "hooks of modules dropped as they come",
        "hooks that are registered again and again",
        {"leak.hooks": True},
    ),
    ("gc.collect() every 10 steps", "reference cycles", {"leak.collect": True}),
    ("profilers off", "a profiler that keeps its events", {"profiler.enabled": "False"}),
)


def _generic(state: _Search, workers: bool) -> str:
    """What holds it, where no line does."""
    others = list(_OTHERS)
    if workers:
        no_workers = ("no worker processes", "what the loader's workers keep", {"DataLoader.num_workers": "0"})
        others.insert(0, no_workers)
    for change, holder, overrides in others:
        if not state.left():
            break
        if state.run(change, Arm(name="leak", overrides=overrides)).outcome == "gone":
            return holder
    return ""


def _without(lines: Sequence[Keeping]) -> Arm:
    return _arm(tuple(edit for keeping in lines for edit in keeping.edits(Keep.NOTHING)))


def _arm(edits: tuple[TextEdit, ...]) -> Arm:
    """The program with these edits, in memory."""
    remedy = Remedy(
        id="leak",
        title="",
        steps=("",),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=edits,
    )
    return edited_arm(make_plan([_bearer(remedy)], unsafe=True), "leak")


def _bearer(remedy: Remedy) -> Ranked:
    """A finding for the remedy, as a plan of edits wants it."""
    finding = Finding(
        code=Code("MEM002"), name="", severity=Severity.NOTE, confidence=Confidence.CONFIRMED, message="",
        evidence=(Measurement(name="", value=0, unit=""),),
    )  # fmt: skip
    return Ranked(rank=1, finding=finding, remedies=(remedy,), set_aside=(), reason="")


def _judged(
    change: str, place: SourceSpan | None, lap: Lap, rate: float, code: str, by_override: bool
) -> LeakTry:
    """The growth of a run beside the baseline's."""
    if lap.problem:
        return LeakTry(change=change, place=place, outcome="failed", reason=lap.problem)
    if by_override and not any(
        record.get("reached") for process in lap.recording.ranks for record in process.of("override")
    ):
        return LeakTry(change=change, place=place, outcome="no place to act")
    after = growth_rate(lap.recording, code)
    if after is None:
        return LeakTry(change=change, place=place, outcome="failed", reason="it made too few steps to judge")
    outcome = "gone" if after <= _GONE * rate else "less" if after <= _LESS * rate else "as before"
    return LeakTry(
        change=change,
        place=place,
        bytes_per_step=max(0.0, after),
        p=_chance(lap.recording, code),
        outcome=outcome,
    )


def _chance(recording: Recording, code: str) -> float | None:
    column = "allocated" if code == "MEM001" else "rss"
    found = [growth.trend.p for process in recording.ranks if (growth := rise(process, column)) is not None]
    return min(found) if found else None


def _span(keeping: Keeping) -> SourceSpan:
    text = keeping.script.text_lines[keeping.line - 1].strip()
    return SourceSpan(path=keeping.script.path, line=keeping.line, text=text)


def _short(keeping: Keeping) -> str:
    return f"{keeping.script.path.rpartition('/')[2]}:{keeping.line}"


def _words(state: _Search, guilty: Keeping | None, holder: str) -> str:
    """`losses (leak.py:16) holds it: 206 KiB a step as it is, 8.4 KiB without leak.py:16`."""
    as_it_is = f"{rate_text(state.rate)} a step as it is"
    if guilty is not None:
        measured = [item for item in state.tries if item.bytes_per_step is not None]
        told = [f"{rate_text(item.bytes_per_step or 0.0)} {_with(item.change)}" for item in measured]
        return f"{guilty.target} ({_short(guilty)}) holds it: {', '.join([as_it_is, *told])}."
    last = state.tries[-1] if state.tries else None
    if holder and last is not None:
        return f"It is {holder}: {as_it_is}, {rate_text(last.bytes_per_step or 0.0)} {_with(last.change)}."
    count = f"{len(state.tries)} changes" if len(state.tries) != 1 else "one change"
    return (
        f"What holds it was not found: {count} left it at {as_it_is[: -len(' as it is')]}."
        if state.tries
        else ""
    )


def _with(change: str) -> str:
    return change if change.startswith(("without", "no ")) else f"with {change}"


def held(finding: Finding, found: LeakSearch) -> Finding:
    """The finding with what the search has shown."""
    if not found.words:
        return finding
    facts: list[tuple[str, float | int | str | bool]] = [("searched", True), ("holder", found.holder)]
    spans: list[SourceSpan] = []
    if found.place is not None:
        spans = [found.place]
        facts += [("keep", found.keep), ("path", found.place.path), ("line", found.place.line)]
    others = [item for item in finding.evidence if item not in spans]
    best = min((item.bytes_per_step for item in found.tries if item.bytes_per_step is not None), default=None)
    less = (
        [Measurement(name="bytes_per_step_without_it", value=round(best, 1), unit="B")]
        if best is not None
        else []
    )
    return replace(
        finding,
        message=f"{finding.message} {found.words}",
        evidence=(*spans, *others, *(less if found.holder else [])),
        facts=(*facts, *finding.facts),
    )
