"""The verdict on a running job: what it waits for now, or how much is still missing to say so."""

from collections.abc import Sequence

from gpudoctor.analysis.live.rank_positions import seen, standing_for, works
from gpudoctor.analysis.live.stack_shares import blind, worth
from gpudoctor.engine.claims import FEWEST_SAMPLES, PRICED, TO_GAIN, WATCH_WELL, share_lost
from gpudoctor.model import Ranked, Severity
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.text import capitalised, duration, joined, percent

_LOST = 0.05
_STILL = 15.0
"""Seconds without any change of any rank's stack that are worth a word; DIST008 waits for a minute."""


def pronounce_live(window: ProcessWindow, ranked: Sequence[Ranked]) -> str:
    """One or two sentences: the first finding where there is one, the margins of health where there is none."""
    ended = f"{capitalised(window.ended)}. " if window.ended else ""
    severe = [item for item in ranked if item.finding.severity is not Severity.NOTE]
    if severe:
        more = len(severe) - 1
        tail = f" {more} more {'thing costs' if more == 1 else 'things cost'} time or memory." if more else ""
        why = blind(window) if any(item.finding.cost.host_share is not None for item in severe) else ""
        unknown = f" The possible speedup is unknown: {why}." if why else ""
        return f"{ended}{severe[0].finding.message}{tail}{unknown}"
    if not window.samples:
        return ended + _unseen(window)
    said = _standing(window) or (_margins(window) if window.samples >= FEWEST_SAMPLES else _too_few(window))
    noted = f" {len(ranked)} {'note' if len(ranked) == 1 else 'notes'} worth knowing." if ranked else ""
    return ended + said + noted + _bias(window)


def _unseen(window: ProcessWindow) -> str:
    gap = next((gap for gap in window.gaps if gap.panel == "stacks"), None)
    if gap is not None:
        fix = f" Fix: {gap.fix}." if gap.fix else ""
        return f"gpudoctor cannot see what the loop waits for: {gap.reason}.{fix}"
    return (
        "" if window.ended else f"Sampling: no stack sample yet of the {FEWEST_SAMPLES} that a verdict needs."
    )


def _too_few(window: ProcessWindow) -> str:
    phase, share = _largest(window)
    seen = f"{window.samples} of {FEWEST_SAMPLES} stack samples so far"
    return f"Sampling: {seen}, {percent(share)} of them in {phase}."


def _standing(window: ProcessWindow) -> str:
    """Where the ranks stand, when none of them moves and no device works."""
    ranks = [rank for rank in window.ranks if rank.alive]
    if not ranks or any(not rank.stack or standing_for(rank) < _STILL for rank in ranks):
        return ""
    if works(window, ranks):
        return ""
    shown = "; ".join(f"{rank.title} in {rank.places[0].label}" for rank in ranks[:4] if rank.places)
    silent = min(map(standing_for, ranks))
    return f"{seen(ranks)} for {duration(silent)}: {shown}." if shown else ""


def _margins(window: ProcessWindow) -> str:
    total = window.samples
    counts = window.phases
    if counts.get("start", 0) * 2 > total:
        return f"Still starting up ({percent(counts['start'] / total)} of the samples import or connect)."
    lost = share_lost(window)
    named = [(counts[phase] / total, phase) for phase in PRICED if counts.get(phase)]
    parts = [f"{phase.replace('_', ' ')} {percent(share)}" for share, phase in sorted(named, reverse=True)[:3]]
    parts.append(f"other {percent(counts.get('other', 0) / total)}")
    why, part = blind(window), worth(window, lost)
    most = (
        f"the possible speedup there is at most {1 / (1 - part):.2f}x"
        if part < 0.99
        else "the possible speedup there is large"
    )
    gain = f"the possible speedup is unknown: {why}" if why else most
    if lost >= TO_GAIN:
        said = "No finding explains it"
    else:
        missing = WATCH_WELL.lacks(window)
        said = WATCH_WELL.says + (f", but {joined(missing)}" if missing else "")
    return f"{said}: {', '.join(parts)}; {gain}."


def _bias(window: ProcessWindow) -> str:
    looks = window.samples + window.lost
    if window.lost < _LOST * looks:
        return ""
    return (
        f" {window.lost} of {looks} samples failed, more often in fast Python code: the "
        "shares of waits are a little too high."
    )


def _largest(window: ProcessWindow) -> tuple[str, float]:
    phase, count = next(iter(window.phases.items()))
    return phase.replace("_", " "), count / window.samples
