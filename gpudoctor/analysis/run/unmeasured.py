"""What the source suspects and a run has not measured: it made no step, or did not get there.

A program may hold many trainings, and a run makes one of them. What the source suspects of the others is true
of another job.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpudoctor.analysis.run.line_costs import lines, place_of, sites, ways
from gpudoctor.analysis.run.steady_run import recorded, run_of, script_at, source_of
from gpudoctor.analysis.source.syntax import is_attribute, nodes
from gpudoctor.lang import say
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.finding import Confidence, Cost, Finding, Severity
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.signs.source import Loop, LoopRole, Script
from gpudoctor.text import count

_SHOWN = 8
"""Places of one ailment that are named."""
_LOOKS = 20
"""Looks of the sampler into one branch by which the other one, never seen, was not taken."""
_PASS = ("backward", "step")
"""Methods that the sampler sees wherever a step calls them..."""
_PASSES = ("backward", "optimizer")
"""...in these phases."""


def without_steps(recording: Recording) -> bool:
    """Whether a recorded program was seen, and came to no training step."""
    return recording.origin == "gpudoctor" and bool(recording.ranks) and run_of(recording) is None


def is_suspicion(finding: Finding) -> bool:
    """Whether only the text of a program says so."""
    return finding.confidence is Confidence.SUSPECTED and finding.span is not None


def _as_note(finding: Finding) -> Finding:
    message = say("{message} This run did not take that branch.", message=finding.message)
    return replace(finding, message=message, severity=Severity.NOTE, cost=Cost())


def with_notes(patient: Patient, recording: Recording, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with what this run did not come to as notes that cost it nothing.

    Of a run without a step, that is all suspicions of lost time, one for each ailment. What says that a result is wrong
    keeps its severity: no measurement is needed for it.
    """
    if not without_steps(recording):
        return tuple(_as_note(one) if _not_taken(patient, one) else one for one in findings)
    kept: dict[str | int, list[Finding]] = {}
    for place, finding in enumerate(findings):
        if is_suspicion(finding) and finding.cost.breaks is None:
            kept.setdefault(finding.code, []).append(replace(finding, severity=Severity.NOTE))
        else:
            kept[place] = [finding]
    return tuple(_folded(same) for same in kept.values())


def _folded(same: list[Finding]) -> Finding:
    """One finding for all places of an ailment: the first speaks, the others are its evidence."""
    first = same[0]
    if len(same) == 1:
        return first
    evidence: list[Evidence] = list(first.evidence)
    evidence += [other.span for other in same[1:] if other.span is not None and other.span not in evidence]
    more = count(len(same) - 1, "more place")
    return replace(
        first,
        message=say("{message} The same is suspected at {more}.", message=first.message, more=more),
        evidence=tuple(evidence[: max(_SHOWN, len(first.evidence))]),
    )


def elsewhere(patient: Patient, finding: Finding) -> bool:
    """Whether a suspicion is of a training loop that the run was never seen in, while it trained in another."""
    if finding.confidence is not Confidence.SUSPECTED or finding.span is None:
        return False
    recording, source = recorded(patient), source_of(patient)
    if recording is None or source is None:
        return False
    script = script_at(patient, finding.span.path)
    loop = _around(script, finding.span.line) if script is not None else None
    if script is None or loop is None:
        return False
    seen = [(found, line) for path, line in _seen(recording) if (found := script_at(patient, path)) is not None]
    first, last = _extent(script, loop)
    trained = any(_around(found, line) is not None for found, line in seen)
    return trained and not any(found is script and first <= line <= last for found, line in seen)


def _not_taken(patient: Patient, finding: Finding) -> bool:
    """Whether a suspicion is of a branch or a function that the run did not take.

    The run was never seen in it, but in the other branch, or in a pass where this one has its own.
    """
    recording, span = recorded(patient), finding.span
    script = script_at(patient, span.path) if span is not None else None
    if finding.confidence is not Confidence.SUSPECTED or recording is None or span is None or script is None:
        return False
    looks: Counter[int] = Counter()
    passes = 0.0
    for path, line, samples, is_pass in _looks(recording):
        passes += is_pass * samples
        if script_at(patient, path) is script:
            looks[line] += max(1, round(samples))

    def seen(block: Sequence[ast.stmt]) -> int:
        lines = range(block[0].lineno, (block[-1].end_lineno or block[-1].lineno) + 1) if block else ()
        return sum(looks[line] for line in lines)

    for node in nodes(script, ast.If, ast.FunctionDef):
        other = node.orelse if isinstance(node, ast.If) else []
        for mine, theirs in ((node.body, other), (other, node.body)):
            if not mine or not mine[0].lineno <= span.line <= (mine[-1].end_lineno or 0) or seen(mine):
                continue
            if isinstance(node, ast.If) and seen(theirs) >= _LOOKS:
                return True
            if passes >= _LOOKS and any(is_attribute(part, *_PASS) for one in mine for part in ast.walk(one)):
                return True
    return False


def _looks(recording: Recording) -> Iterator[tuple[str, int, float, bool]]:
    """Places where the ranks' main threads were, looks there, and whether in a step's own passes."""
    for process in recording.ranks:
        for item in lines(process):
            yield item.place.path, item.place.line, item.samples, item.phase in _PASSES
        yield from ((site.place.path, site.place.line, 0.0, False) for site in sites(process))
        for some in ways(process).values():
            for way in some:
                yield from ((place.path, place.line, way.samples, False) for place in way.callers)


def _around(script: Script, line: int) -> Loop | None:
    """The training loop that a line stands in."""
    return next(
        (loop for loop in script.loops if loop.role is LoopRole.TRAINING and loop.span.line <= line <= loop.end_line),
        None,
    )


def _extent(script: Script, loop: Loop) -> tuple[int, int]:
    """First and last line of a loop and of the loops around it in its function, those over epochs say."""
    around = [
        other
        for other in script.loops
        if other.function == loop.function and other.span.line <= loop.span.line and other.end_line >= loop.end_line
    ]
    return min(other.span.line for other in around), max(other.end_line for other in around)


def _seen(recording: Recording) -> Iterator[tuple[str, int]]:
    """Places where the ranks' main threads were: where their steps ended, and what the sampler saw."""
    for process in recording.ranks:
        ends = map(place_of, process.of("loop"))
        for place in (*ends, *(item.place for item in lines(process))):
            if place is not None:
                yield place.path, place.line
