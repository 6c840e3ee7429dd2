"""The verdict on a running job: what it waits for now, or how much is still missing to say so."""

from collections.abc import Sequence

from gpudoctor.analysis.live.rank_positions import seen, standing_for, works
from gpudoctor.analysis.live.stack_shares import blind, worth
from gpudoctor.engine.claims import FEWEST_SAMPLES, PRICED, TO_GAIN, not_judged, share_lost, unseen_live
from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Outcome, PatientKind, Ranked, Severity
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.text import capitalised, duration, joined_clauses, percent

_STILL = 15.0
"""Seconds without any change of any rank's stack that are worth a word; DIST008 waits for a minute."""


def pronounce_live(window: ProcessWindow, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """One or two sentences: the first finding where there is one, the margins of health where there is none."""
    ended = say("{ended}. ", ended=capitalised(window.ended)) if window.ended else ""
    severe = [item for item in ranked if item.finding.severity is not Severity.NOTE]
    if severe:
        why = blind(window) if any(item.finding.cost.host_share is not None for item in severe) else ""
        unknown = say(" The possible speedup is unknown: {why}.", why=why) if why else ""
        return say("{ended}{message}{unknown}", ended=ended, message=severe[0].finding.message, unknown=unknown)
    if not window.samples:
        return ended + _unseen(window)
    judged = window.samples >= FEWEST_SAMPLES
    said = _standing(window) or (
        _margins(window) + not_judged(PatientKind.PROCESS, outcomes) if judged else _too_few(window)
    )
    return ended + said


def _unseen(window: ProcessWindow) -> str:
    gap = next((gap for gap in window.gaps if gap.panel == "stacks"), None)
    if gap is not None:
        fix = say(" Fix: {fix}.", fix=gap.fix) if gap.fix else ""
        return say("gpudoctor cannot see what the loop waits for: {reason}.{fix}", reason=gap.reason, fix=fix)
    return (
        ""
        if window.ended
        else say(
            "Sampling: no stack sample yet of the {fewest_samples} that a verdict needs.", fewest_samples=FEWEST_SAMPLES
        )
    )


def _too_few(window: ProcessWindow) -> str:
    phase, count = next(iter(window.phases.items()))
    share = percent(count / window.samples)
    seen = say(
        "{samples} of {fewest_samples} stack samples so far", samples=window.samples, fewest_samples=FEWEST_SAMPLES
    )
    return say("Sampling: {seen}, {share} of them in {phase}.", seen=seen, share=share, phase=phase.replace("_", " "))


def _standing(window: ProcessWindow) -> str:
    """Where the ranks stand, when none of them moves and no device works."""
    ranks = [rank for rank in window.ranks if rank.alive]
    if not ranks or any(not rank.stack or standing_for(rank) < _STILL for rank in ranks):
        return ""
    if works(window, ranks):
        return ""
    shown = concatenated(
        "; ",
        (say("{title} in {label}", title=rank.title, label=rank.places[0].label) for rank in ranks[:4] if rank.places),
    )
    silent = min(map(standing_for, ranks))
    return say("{seen} for {silent}: {shown}.", seen=seen(ranks), silent=duration(silent), shown=shown) if shown else ""


def _margins(window: ProcessWindow) -> str:
    total = window.samples
    counts = window.phases
    if counts.get("start", 0) * 2 > total:
        return say(
            "Still starting up ({start} of the samples import or connect).", start=percent(counts["start"] / total)
        )
    lost = share_lost(window)
    named = [(counts[phase] / total, phase) for phase in PRICED if counts.get(phase)]
    parts = [
        say("{phase} {share}", phase=term(phase.replace("_", " ")), share=percent(share))
        for share, phase in sorted(named, reverse=True)[:3]
    ]
    parts.append(say("other {counts}", counts=percent(counts.get("other", 0) / total)))
    why, part = blind(window), worth(window, lost)
    most = (
        say("the possible speedup there is at most {part:.2f}x", part=1 / (1 - part))
        if part < 0.99
        else say("the possible speedup there is large")
    )
    gain = say("the possible speedup is unknown: {why}", why=why) if why else most
    if lost >= TO_GAIN:
        said = say("No finding explains it")
    else:
        missing = list(unseen_live(window))
        said = (
            say("No fault was found, but {missing}", missing=joined_clauses(missing))
            if missing
            else say("Little time is lost outside computation")
        )
    return say("{said}: {parts}; {gain}.", said=said, parts=concatenated(", ", parts), gain=gain)
