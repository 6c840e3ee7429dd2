"""Shares of stack samples: whether there are enough, how sure they are, and findings made of them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.run.steady_run import grown
from gpudoctor.model.check import Check
from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Evidence, Measurement, SourceSpan
from gpudoctor.model.finding import Cost, Finding, Whose
from gpudoctor.model.patient import Patient
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.signs.process import GpuWindow, Place, ProcessWindow
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable, optional
from gpudoctor.text import percent

ENOUGH = 30
"""Stack samples below which no share is judged (with fewer, a few looks would decide)."""
LEAST_SEEN = 3
"""Samples of an ailment below which it is chance."""
HIDDEN = 0.9
"""Busy share of the GPUs from which on the host's waits cost nothing: the device has work queued meanwhile."""
_Z = 1.28
"""One-sided 90 % bound."""
Wanted = Callable[[Place], bool]
Suspect = Callable[[], Iterable[Finding]]


def watched(patient: Patient) -> ProcessWindow | None:
    """The window; None where no process is watched."""
    return optional(lambda: patient.process)


def enough(window: ProcessWindow, least: int = ENOUGH) -> int:
    """The number of good samples; raises `Unavailable` when that is too few to judge."""
    if window.samples >= least:
        return window.samples
    blind = next((gap.reason for gap in window.gaps if gap.panel == "stacks"), "")
    raise Unavailable(f"no stacks: {blind}" if blind else f"{window.samples} of {least} stack samples so far")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackShare:
    """What part of the samples was found somewhere."""

    share: float
    """Of all good samples (0..1), or exact where `gpudoctor run` records the job."""
    count: int
    total: int
    places: tuple[Place, ...]
    """Most first."""
    exact: bool = False

    @property
    def least(self) -> float:
        """What the share is at least, with 90 % confidence (Wilson's lower bound)."""
        return self.share if self.exact else lower_bound(self.count, self.total)

    @property
    def words(self) -> str:
        """`58 %`, and of how many samples."""
        return percent(self.share) if self.exact else f"{percent(self.share)} of {self.total} stack samples"


def taken(window: ProcessWindow, wanted: Wanted, *, phase: str = "") -> StackShare:
    """The samples at wanted places; with `phase`, the one that they make up whole, its exact share if known."""
    total = enough(window)
    places = tuple(place for place in window.places if wanted(place))
    count = sum(place.count for place in places)
    exact = exact_share(window, phase) if phase else None
    if exact is not None:
        return StackShare(share=exact, count=count, total=total, places=places, exact=True)
    return StackShare(share=count / total, count=count, total=total, places=places)


def exact_share(window: ProcessWindow, phase: str) -> float | None:
    """The share of step time that the probe measured, the mean over ranks; None where not all have one."""
    steps = [rank.steps for rank in window.ranks if rank.alive]
    if not steps or any(step is None or not step.phases for step in steps):
        return None
    return sum(step.phases.get(phase, 0.0) for step in steps if step) / len(steps)


def lower_bound(count: int, total: int) -> float:
    """Wilson's lower bound of a share."""
    if total <= 0:
        return 0.0
    share, z2 = count / total, _Z * _Z
    middle = share + z2 / (2 * total)
    spread = _Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, (middle - spread) / (1 + z2 / total))


def level(found: StackShare, noted: float, warned: float) -> Severity | None:
    """Note or warning by two thresholds; None below both, or where chance may have made it."""
    if not found.exact and (found.count < LEAST_SEEN or found.least < noted / 2):
        return None
    if found.share >= warned:
        return Severity.WARNING
    return Severity.NOTE if found.share >= noted else None


def job_gpus(window: ProcessWindow) -> tuple[GpuWindow, ...]:
    """The GPUs that the job holds memory on."""
    used = {index for rank in window.ranks for index in rank.gpus}
    return tuple(gpu for gpu in window.gpus if gpu.index in used and not gpu.lost)


def device_busy(window: ProcessWindow) -> float | None:
    """Mean busy share of the job's GPUs over the window; None where that is not known."""
    known = [gpu.activity.mean for gpu in job_gpus(window) if gpu.activity.known()]
    return sum(known) / len(known) if known else None


def device_idle(window: ProcessWindow) -> float | None:
    """Mean share of time in which the job's GPUs ran no kernel; None where that is not known."""
    cards = [gpu for gpu in job_gpus(window) if gpu.activity.known()]
    # A kernel that fills few SMs is work all the same: NVML's share, not GPM's.
    busy = [(gpu.busy if gpu.busy.known() else gpu.sm).mean for gpu in cards]
    return max(0.0, 1.0 - sum(busy) / len(busy)) if busy else None


def blind(window: ProcessWindow) -> str:
    """Why it is not known what a wait of the host costs, as a clause; "" where it is, or no GPU is used."""
    if device_idle(window) is not None:
        return ""
    gap = next((gap for gap in window.gaps if gap.panel == "gpu"), None)
    # Without a fix there is no GPU here.
    if gap is not None:
        return f"the GPUs were not read ({gap.reason})" if gap.fix else ""
    return "the GPU's utilisation is not known" if any(rank.gpus for rank in window.ranks) else ""


def worth(window: ProcessWindow, share: float, whose: Whose = Whose.HOST) -> float:
    """What a share of time can give back: a wait of the host, no more than the GPUs are idle."""
    idle = device_idle(window) if whose is Whose.HOST else None
    return share if idle is None else min(share, idle)


def hidden(window: ProcessWindow) -> bool:
    """Whether the device is busy all the while, so that waits of the host cost nothing."""
    busy = device_busy(window)
    return busy is not None and busy >= HIDDEN


def spans(places: Iterable[Place], most: int = 3, share: float = 0.1) -> list[SourceSpan]:
    """The user's lines of these places, most first: those with a tenth of their samples."""
    counts: dict[tuple[str, int], int] = {}
    texts: dict[tuple[str, int], str] = {}
    for place in places:
        if place.path:
            key = (place.path, place.line)
            counts[key] = counts.get(key, 0) + place.count
            texts[key] = texts.get(key) or place.text
    whole = sum(counts.values())
    named = [key for key in sorted(counts, key=lambda key: -counts[key]) if counts[key] >= share * whole]
    return [SourceSpan(path=path, line=max(1, line), text=texts[path, line]) for path, line in named[:most]]


def where(found: Iterable[Place]) -> str:
    """The first place as a clause: ` in __getitem__ (data.py:31)`; "" where no user line is known."""
    named = next((place for place in found if place.path), None)
    return f" in {named.label}" if named else ""


def confirmed(
    check: Check,
    window: ProcessWindow,
    message: str,
    *,
    found: StackShare,
    severity: Severity,
    name: str,
    suspect: Suspect | None = None,
    numbers: Sequence[Evidence] = (),
    detail: Detail | None = None,
    breaks: str | None = None,
    whose: Whose = Whose.HOST,
) -> Finding:
    """The finding of an ailment seen live: the source's suspicion that it confirms, grown, or a new one."""
    lines = spans(found.places)
    evidence: list[Evidence] = [*lines, share_seen(window, name, found), *numbers]
    cost = Cost(step_share=worth(window, found.share, whose), whose=whose, breaks=breaks)
    base = _match(_suspicions(suspect), lines) if suspect else None
    if base is not None:
        return grown(base, message, evidence=evidence, severity=severity, cost=cost, detail=detail)
    return check.finding(
        message,
        evidence=tuple(evidence),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        cost=cost,
        subject=f"{lines[0].path.rpartition('/')[2]}:{lines[0].line}" if lines else "",
        detail=detail,
    )


def share_seen(window: ProcessWindow, name: str, found: StackShare) -> Measurement:
    """The share as evidence, with the command that shows such a stack."""
    return Measurement(name=name, value=round(found.share, 4), unit="1", reproduce=by_hand(window))


def by_hand(window: ProcessWindow) -> str:
    """What shows one stack sample."""
    return f"py-spy dump --nonblocking --pid {window.ranks[0].pid}"


def _suspicions(suspect: Suspect) -> list[Finding]:
    try:
        return list(suspect())
    except (Unavailable, ReaderCrashed):
        return []  # no script could be read: the samples speak alone


def _match(suspected: Sequence[Finding], lines: Sequence[SourceSpan]) -> Finding | None:
    """The suspicion that names one of the lines; else the only one."""
    places = {(line.path, line.line) for line in lines}
    for finding in suspected:
        if any(isinstance(item, SourceSpan) and (item.path, item.line) in places for item in finding.evidence):
            return finding
    return suspected[0] if len(suspected) == 1 else None
