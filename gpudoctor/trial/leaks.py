"""The bisection of a leak: keeping lines are left out, containers let go, until the growth stops."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpudoctor.analysis.run.memory_growth import rise
from gpudoctor.analysis.run.steady_run import script_at
from gpudoctor.analysis.source.retention import LAST, Retention, RetentionKind, keeping_at
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.mend.plan import make_plan
from gpudoctor.model import (
    GROWTH,
    Code,
    Confidence,
    Finding,
    Measurement,
    Patient,
    Ranked,
    Remedy,
    Severity,
    SourceSpan,
    Trait,
)
from gpudoctor.model.proof import Cure, LeakDetail, LeakSearch, LeakTry
from gpudoctor.model.remedy import Applicability, Edit, Effort, TextEdit
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.candidates import edited_arm
from gpudoctor.trial.cure import growth_rate, memory_column, rate_text
from gpudoctor.trial.trial_runner import Arm, TrialRun, TrialRunner
from gpudoctor.trial.window import steps_made

# The runs of a leak's search: one change each, judged by the growth with it beside the baseline's.

_GONE, _LESS = 0.2, 0.7
"""Growth as a share of the baseline's, up to which it is gone, and up to which it is less."""
_SLOWER, _SPARE = 2.5, 20.0


@dataclass(slots=True, kw_only=True)
class LeakRuns:
    """Runs changes of one leaking command, as many steps each as its baseline made."""

    bench: TrialRunner
    finding: Finding
    """Its traits say which memory grows."""
    rate: float
    """Bytes a step of the baseline."""
    steps: int
    seconds: float
    """Of the baseline."""
    deadline: float
    """On the monotonic clock."""
    doing: Callable[[str], None]
    tries: list[LeakTry] = field(default_factory=list)
    names: tuple[str, ...] = ()
    """Containers that the last run has cleared."""

    def left(self) -> bool:
        """Whether there is time for another run."""
        return time.monotonic() + _SPARE + self.seconds < self.deadline

    def run(self, change: str, arm: Arm, place: SourceSpan | None = None) -> LeakTry:
        """One run, judged and noted."""
        self.doing(change)
        limit = _SPARE + _SLOWER * self.seconds
        lap = self.bench.look(arm, steps=self.steps, seconds=limit, machine=True)
        reached = [item for rank in lap.recording.ranks for item in rank.of("override") if item.get("reached")]
        self.names = tuple(dict.fromkeys(str(name) for item in reached for name in item.get("names") or ()))
        if arm.overrides and not reached and not lap.problem:
            made = LeakTry(change=change, place=place, outcome=say("no place to edit"))
        else:
            made = self._judged(change, place, lap)
        self.tries.append(made)
        return made

    def _judged(self, change: str, place: SourceSpan | None, lap: TrialRun) -> LeakTry:
        """The growth of a run beside the baseline's."""
        if lap.problem:
            return LeakTry(change=change, place=place, outcome="failed", reason=lap.problem)
        after = growth_rate(lap.recording, self.finding.traits)
        if after is None:
            reason = say("it made too few steps to judge")
            return LeakTry(change=change, place=place, outcome="failed", reason=reason)
        gone, less = after <= _GONE * self.rate, after <= _LESS * self.rate
        return LeakTry(
            change=change,
            place=place,
            bytes_per_step=max(0.0, after),
            p=_chance(lap.recording, self.finding.traits),
            outcome="gone" if gone else "less" if less else say("as before"),
        )


def _chance(recording: Recording, traits: frozenset[Trait]) -> float | None:
    column = memory_column(recording, traits)
    found = [growth.trend.p for process in recording.ranks if (growth := rise(process, column)) is not None]
    return min(found) if found else None


def without(lines: Sequence[Retention]) -> Arm:
    """The program without statements."""
    return edited(tuple(edit for keeping in lines for edit in keeping.edits(RetentionKind.NOTHING)))


def edited(edits: tuple[TextEdit, ...]) -> Arm:
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
        code=Code("edits"), name="", severity=Severity.NOTE, confidence=Confidence.CONFIRMED, message="",
        evidence=(Measurement(name="", value=0, unit=""),),
    )  # fmt: skip
    return Ranked(rank=1, finding=finding, remedies=(remedy,), set_aside=(), reason="")


# Each try is a run of as many steps as the baseline's, judged by the same trend. First the suspected lines,
# those that the recording names before those that only the source shows: all of them left out, then one by one.
# At the guilty line the smallest change that still stops the growth: the graph cut, a number instead of a
# tensor, the last ones only. Where no line is guilty: containers by name, hooks, reference cycles, a profiler.

_LINES = 4
"""Suspected lines that are tried."""
_NAMES = 3
"""Containers that are tried one by one."""
_RANK = {"gone": 0, "less": 1}
_Known = dict[tuple[Edit, ...], Cure]
"""Edits that were tried, and whether they stop the growth."""


def search(
    bench: TrialRunner,
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
    rate = growth_rate(recording, finding.traits) if finding is not None else None
    if finding is None or rate is None or rate <= 0:
        return None
    began = time.monotonic()
    runs = LeakRuns(
        bench=bench, finding=finding, rate=rate, steps=steps_made(recording), seconds=seconds,
        deadline=began + budget, doing=doing,
    )  # fmt: skip
    known: _Known = {}
    leaks = _leaks(ranked)
    guilty, keep = _guilty_line(runs, _suspects(patient, leaks), leaks, known)
    holder = guilty.target if guilty is not None else _generic(runs, bool(recording.workers))
    made = LeakSearch(
        code=str(finding.code), bytes_per_step=rate, steps=runs.steps, tries=tuple(runs.tries), holder=holder,
        place=_span(guilty) if guilty is not None else None, keep=keep, seconds=time.monotonic() - began,
        words=_words(runs, guilty, holder),
    )  # fmt: skip
    return made, known


def _finding(ranked: Sequence[Ranked]) -> Finding | None:
    """The leak that a run has shown."""
    return next((item for item in _leaks(ranked) if item.confidence is Confidence.CONFIRMED), None)


def _leaks(ranked: Sequence[Ranked]) -> list[Finding]:
    """Findings of memory that grows: the device's first, what may be either last."""
    found = [item.finding for item in ranked if item.finding.traits & GROWTH]
    return sorted(found, key=lambda item: (len(item.traits), Trait.HOST_MEMORY_GROWS in item.traits))


def _suspects(patient: Patient, leaks: Sequence[Finding]) -> list[Retention]:
    """Statements that keep something, at the places that the findings of growing memory name."""
    found: dict[tuple[str, int], Retention] = {}
    for leak in leaks:
        for span in leak.evidence:
            script = script_at(patient, span.path) if isinstance(span, SourceSpan) else None
            keeping = keeping_at(script, span.line) if script and isinstance(span, SourceSpan) else None
            if keeping is not None and keeping.edits(RetentionKind.NOTHING):
                found.setdefault((keeping.script.path, keeping.line), keeping)
    return list(found.values())[:_LINES]


def _guilty_line(
    runs: LeakRuns, lines: Sequence[Retention], leaks: Sequence[Finding], known: _Known
) -> tuple[Retention | None, str]:
    """The line without which the growth is gone, the one worth most where several share it; and what to keep.

    Where the program cannot do without a line, what it keeps less of may show that it is the one.
    """
    if len(lines) > 1 and runs.left():
        all_out = runs.run("without the lines that keep something", without(lines))
        if all_out.outcome == "as before":
            return None, ""
    guilty, failed = _left_out(runs, lines)
    if guilty is not None:
        return guilty, _least(runs, guilty, leaks, known) or RetentionKind.NOTHING.value
    for keeping in failed:
        keep = _least(runs, keeping, leaks, known)
        if keep:
            return keeping, keep
    return None, ""


def _left_out(runs: LeakRuns, lines: Sequence[Retention]) -> tuple[Retention | None, list[Retention]]:
    """Lines left out one by one: the guilty one, and those without which the program does not run."""
    best: tuple[int, float, Retention] | None = None
    failed = []
    for keeping in lines:
        if not runs.left():
            break
        made = runs.run(say("without {short}", short=_short(keeping)), without([keeping]), _span(keeping))
        if made.outcome in _RANK:
            here = (_RANK[made.outcome], made.bytes_per_step or 0.0, keeping)
            best = min(best, here, key=lambda item: item[:2]) if best else here
        if made.outcome == "gone":
            break
        if made.outcome == "failed":
            failed.append(keeping)
    return (best[2] if best else None), failed


def _least(runs: LeakRuns, keeping: Retention, leaks: Sequence[Finding], known: _Known) -> str:
    """The smallest change of the line that stops the growth; "" where none of them does."""
    for keep in (RetentionKind.DETACHED, RetentionKind.NUMBER, RetentionKind.LAST):
        edits = keeping.edits(keep)
        if not edits or not runs.left():
            continue
        last = keep is RetentionKind.LAST
        what = (
            say("only the last {last} of {target}", last=LAST, target=keeping.target)
            if last
            else keeping.written(keep)
        )
        made = runs.run(
            say("{what} at {short}", what=what, short=_short(keeping)), edited(edits), _span(keeping)
        )
        if made.bytes_per_step is not None and not last:
            known[edits] = _cure(runs, made, leaks)
        if made.outcome == "gone":
            return str(keep.value)
    return ""


def _cure(runs: LeakRuns, made: LeakTry, leaks: Sequence[Finding]) -> Cure:
    """A try as the proof of a remedy that makes the same edit."""
    after = made.bytes_per_step or 0.0
    return Cure(
        code=str(runs.finding.code),
        name=runs.finding.name,
        gone=made.outcome == "gone",
        words=say("grew {rate} a step, {after} with it", rate=rate_text(runs.rate), after=rate_text(after)),
        steps=runs.steps,
        also=tuple(dict.fromkeys(str(leak.code) for leak in leaks)) if made.outcome == "gone" else (),
        before=runs.rate,
        after=after,
        unit="B",
    )


_CONTAINERS = "leak.containers"
_OTHERS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (say("containers that grow, cleared every 10 steps"), "a container", {_CONTAINERS: ""}),
    (
        say("hooks of modules removed as they are added"),
        say("hooks that are registered again and again"),
        {"leak.hooks": True},
    ),
    (say("gc.collect() every 10 steps"), say("reference cycles"), {"leak.collect": True}),
    (say("profilers off"), say("a profiler that keeps its events"), {"profiler.enabled": "False"}),
)


def _generic(runs: LeakRuns, workers: bool) -> str:
    """What holds it, where no line does."""
    others = list(_OTHERS)
    if workers:
        no_workers = (
            say("no worker processes"),
            say("what the loader's workers retain"),
            {"DataLoader.num_workers": "0"},
        )
        others.insert(0, no_workers)
    for change, holder, overrides in others:
        if not runs.left():
            break
        if runs.run(change, Arm(name="leak", overrides=overrides)).outcome == "gone":
            return _named(runs) if _CONTAINERS in overrides else holder
    return ""


def _named(runs: LeakRuns) -> str:
    """Which of the containers that were cleared it is: one by one, where there are several."""
    names = runs.names
    if len(names) == 1:
        return say("the container {names}", names=names[0])
    for name in names[:_NAMES]:
        if not runs.left():
            break
        arm = Arm(name="leak", overrides={_CONTAINERS: name})
        if runs.run(say("{name} cleared every 10 steps", name=name), arm).outcome == "gone":
            return say("the container {name}", name=name)
    return say("one of the containers {names}", names=", ".join(names)) if names else "a container"


def _span(keeping: Retention) -> SourceSpan:
    text = keeping.script.text_lines[keeping.line - 1].strip()
    return SourceSpan(path=keeping.script.path, line=keeping.line, text=text)


def _short(keeping: Retention) -> str:
    return f"{keeping.script.path.rpartition('/')[2]}:{keeping.line}"


def _words(runs: LeakRuns, guilty: Retention | None, holder: str) -> str:
    """`losses (leak.py:16) retains it: 206 KiB a step as it is, 8.4 KiB without leak.py:16`."""
    as_it_is = say("{rate} a step as it is", rate=rate_text(runs.rate))
    if guilty is not None:
        measured = [item for item in runs.tries if item.bytes_per_step is not None]
        told = [
            say(
                "{rate} {change}",
                rate=rate_text(item.bytes_per_step or 0.0),
                change=_with(item.change),
            )
            for item in measured
        ]
        alone = any(item.outcome == "gone" and item.place is not None for item in runs.tries)
        holds = say("retains it") if alone else say("holds part of it")
        return say(
            "{target} ({short}) {holds}: {value}.",
            target=guilty.target,
            short=_short(guilty),
            holds=holds,
            value=concatenated(", ", [as_it_is, *told]),
        )
    last = next((item for item in reversed(runs.tries) if item.outcome == "gone"), None)
    if holder and last is not None:
        return say(
            "It is {holder}: {unchanged}, {rate} {change}.",
            holder=holder,
            unchanged=as_it_is,
            rate=rate_text(last.bytes_per_step or 0.0),
            change=_with(last.change),
        )
    count = say("{tries} changes", tries=len(runs.tries)) if len(runs.tries) != 1 else say("one change")
    return (
        say(
            "The owner of the memory was not found: {count} left it at {rate}.",
            count=count,
            rate=as_it_is[: -len(" as it is")],
        )
        if runs.tries
        else ""
    )


def _with(change: str) -> str:
    return change if change.startswith(("without", "no ")) else say("with {change}", change=change)


def held(finding: Finding, found: LeakSearch) -> Finding:
    """The finding with what the search has shown."""
    if not found.words:
        return finding
    spans = [found.place] if found.place is not None else []
    others = [item for item in finding.evidence if item not in spans]
    detail = finding.detail
    best = min((item.bytes_per_step for item in found.tries if item.bytes_per_step is not None), default=None)
    less = (
        [Measurement(name="bytes_per_step_without_it", value=round(best, 1), unit="B")]
        if best is not None
        else []
    )
    return replace(
        finding,
        message=say("{message} {words}", message=finding.message, words=found.words),
        evidence=(*spans, *others, *(less if found.holder else [])),
        detail=replace(detail, search=found) if isinstance(detail, LeakDetail) else detail,
    )
