"""The verdict on an active examination: start, start without these nodes, or do not start."""

from collections.abc import Sequence

from gpudoctor.analysis.preflight.named_nodes import NodesDetail, judgement
from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Patient, Ranked, Severity
from gpudoctor.model.signs.preflight import LossKind, Preflight, Stage
from gpudoctor.text import count, joined

_FEW = 4
_SENTENCES = 2
"""What tests do not decide, in full; more of them are counted."""


def nodes_to_leave_out(ranked: Sequence[Ranked]) -> tuple[str, ...]:
    """Host names that errors and warnings name, the worst first; those that a scheduler should exclude."""
    found: dict[str, None] = {}
    for item in ranked:
        detail = item.finding.detail
        if isinstance(detail, NodesDetail) and item.finding.severity is not Severity.NOTE:
            found |= dict.fromkeys(detail.hosts)
    return tuple(found)


def pronounce_preflight(patient: Patient, ranked: Sequence[Ranked], missing: Sequence[str] = ()) -> str:
    """Which nodes to leave out and why, or that all were found well; then what was not tested.

    `missing` is what a claim that all passed requires and was not seen, a clause each.
    """
    found = patient.preflight
    bad = [item for item in ranked if item.finding.severity is not Severity.NOTE]
    said = _bad(found, ranked, bad) if bad else _good(found, len(ranked), missing)
    return concatenated(
        " ", (part for part in (said, _gaps(found, named=bool(bad)), _links(found), *_open(patient)) if part)
    )


def _open(patient: Patient) -> tuple[str, ...]:
    """What the tests between nodes do not decide, the first sentences: above all a run that varies too much."""
    said = judgement(patient).undecided
    more = say("{said} more questions are open.", said=len(said) - _SENTENCES) if len(said) > _SENTENCES else ""
    return (*said[:_SENTENCES], more)


def _links(found: Preflight) -> str:
    """How many of the links between nodes a test of two nodes has used, where it is not all of them."""
    nodes = len(found.nodes)
    every = nodes * (nodes - 1) // 2
    met = {frozenset(test.nodes) for test in found.tests if test.stage is Stage.PAIRS and len(test.nodes) == 2}
    if not met or len(met) >= every:
        return ""
    more = "" if found.mode == "deep" else say("; --deep tests more of them")
    return say("{met} of {every} links between two nodes were tested{more}.", met=len(met), every=every, more=more)


def _bad(found: Preflight, ranked: Sequence[Ranked], bad: Sequence[Ranked]) -> str:
    hosts = nodes_to_leave_out(ranked)
    first = bad[0].finding
    if hosts:
        named = (
            joined(list(hosts))
            if len(hosts) <= _FEW
            else say("{hosts} nodes ({first}, ...)", hosts=len(hosts), first=concatenated(", ", hosts[:_FEW]))
        )
        causes = list(dict.fromkeys(item.finding.name for item in bad))
        left = len(found.nodes) - len({node.index for node in found.nodes if node.name in hosts})
        rest = say(
            " {nodes} of {all_nodes} {verb} left.",
            nodes=count(left, "node"),
            all_nodes=len(found.nodes),
            verb=say("is") if left == 1 else say("are"),
        )
        why = joined(causes[:3]) + (say(" and others") if len(causes) > 3 else "")
        return say("Leave out {named}: {why}.{rest}", named=named, why=why, rest=rest if len(found.nodes) > 1 else "")
    errors = sum(item.finding.severity is Severity.ERROR for item in bad)
    start = say("Do not start the job") if errors else say("The job can start, slower than it could")
    return say("{start}: {name}. {message}", start=start, name=first.name, message=first.message)


def _good(found: Preflight, notes: int, missing: Sequence[str]) -> str:
    nodes = count(len(found.nodes), "node")
    units = count(len(found.units), "unit")
    noted = say("; {notes} worth knowing", notes=count(notes, "note")) if notes else ""
    tested = len(found.tests)
    links = say(" and {tests} between them", tests=count(tested, "test")) if tested and len(found.nodes) > 1 else ""
    if missing:
        return say(
            "Nothing wrong was found on {nodes}, but {missing}{noted}.",
            nodes=nodes,
            missing=joined(list(missing)),
            noted=noted,
        )
    if not found.units:
        return say("Nothing wrong was found on {nodes}{noted}.", nodes=nodes, noted=noted)
    return say("{nodes} with {units} passed{links}{noted}.", nodes=nodes, units=units, links=links, noted=noted)


def _gaps(found: Preflight, *, named: bool) -> str:
    """What was not tested, a sentence each; `named` says that findings name the lost ranks already."""
    never = any(loss.kind is LossKind.NEVER_CAME for loss in found.losses)
    # ranks that never came are what the first stage waited for
    cut = [item.stage for item in found.stages if not item.ended and not (never and item.stage is Stage.ARRIVE)]
    parts = [
        *(text.rstrip(".") for text in found.untested),
        *(say("the rest of the stage {stage}", stage=term(stage.value)) for stage in cut),
    ]
    lost = sum(loss.kind is not LossKind.REFUSED for loss in found.losses)
    said = [say("Not tested: {part}.", part=part) for part in parts[:_SENTENCES]]
    if len(parts) > _SENTENCES:
        said.append(say("Not tested either: {parts}.", parts=count(len(parts) - _SENTENCES, "more part")))
    if lost and not named:
        said.append(say("{ranks} did not take part to the end.", ranks=count(lost, "rank")))
    return concatenated(" ", said)
