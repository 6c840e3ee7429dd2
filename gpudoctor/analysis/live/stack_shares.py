"""Shares of stack samples: whether there are enough, how sure they are, and what they show."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from gpudoctor.analysis.observation import Observation, Recurrence
from gpudoctor.lang import say
from gpudoctor.model.evidence import Measurement, SourceSpan
from gpudoctor.model.finding import Whose
from gpudoctor.model.signs.process import GpuWindow, Place, ProcessWindow
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, percent

ENOUGH = 30
"""Stack samples below which no share is judged (with fewer, a few looks would decide)."""
LEAST_SEEN = 3
"""Samples of an ailment below which it is chance."""
HIDDEN = 0.9
"""Busy share of the GPUs from which on the host's waits cost nothing: the device has work queued meanwhile."""
_Z = 1.28
"""One-sided 90 % bound."""
Wanted = Callable[[Place], bool]


def enough(window: ProcessWindow, least: int = ENOUGH) -> int:
    """The number of good samples; raises `Unavailable` when that is too few to judge."""
    if window.samples >= least:
        return window.samples
    blind = next((gap.reason for gap in window.gaps if gap.panel == "stacks"), "")
    raise Unavailable(
        say("no stacks: {blind}", blind=blind)
        if blind
        else say("{samples} of {least} stack samples so far", samples=window.samples, least=least)
    )


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
        return say("the GPUs were not read ({reason})", reason=gap.reason) if gap.fix else ""
    return say("the GPU's utilisation is not known") if any(rank.gpus for rank in window.ranks) else ""


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
    return say(" in {label}", label=named.label) if named else ""


def seen_live(window: ProcessWindow, wanted: Wanted, *, phase: str = "", whose: Whose = Whose.HOST) -> Observation:
    """What a watched process shows of the places that are wanted.

    With `phase`, the one that they make up whole, its exact share where `gpudoctor run` records the job.
    """
    total = enough(window)
    found = tuple(place for place in window.places if wanted(place))
    exact = exact_share(window, phase) if phase else None
    if exact is None:
        return seen_at(window, found, sum(place.count for place in found) / total, total, whose=whose)
    seen = seen_at(window, found, exact, total, whose=whose)
    return replace(seen, least=exact, words=say("{exact} of the time", exact=percent(exact)))


def seen_at(
    window: ProcessWindow, found: Sequence[Place], share: float, total: int, *, whose: Whose = Whose.HOST
) -> Observation:
    """A share of so many stack samples, and the places to which they go."""
    count = round(share * total)
    return Observation(
        share=share,
        least=lower_bound(count, total) if count >= LEAST_SEEN else 0.0,
        worth=worth(window, share, whose),
        whose=whose,
        words=say("{share} of {total} stack samples", share=percent(share), total=total),
        where=where(found) + _by(found),
        spans=tuple(spans(found)),
        places=tuple(found),
        reproduce=by_hand(window),
    )


INLINE = frozenset({"loader-inline", "loader-collate", "loader-pin"})
"""Kinds of stacks in which the training process makes the batch itself."""
_STARTED = "loader-start"


def waiting_live(window: ProcessWindow) -> Observation:
    """Samples in which a rank waits for data; starting workers anew is another ailment."""
    phase = "data_wait" if not any(place.kind == _STARTED for place in window.places) else ""
    return seen_live(window, lambda place: place.phase == "data_wait" and place.kind != _STARTED, phase=phase)


def most_workers(window: ProcessWindow) -> int:
    """Loader workers of the rank that has most."""
    return max((len(rank.workers) for rank in window.ranks), default=0)


def recurring_live(window: ProcessWindow, phase: str, *, whose: Whose = Whose.HOST) -> Observation:
    """The same of a phase that comes now and then."""
    seen = seen_live(window, lambda place: place.phase == phase, phase=phase, whose=whose)
    trails = (pairwise([(0.0, ""), *rank.trail]) for rank in window.ranks)
    starts = ([t for (_, last), (t, now) in trail if now == phase and last != phase] for trail in trails)
    begun = max(starts, key=len, default=[])
    if len(begun) < 2:
        return seen
    between = (begun[-1] - begun[0]) / (len(begun) - 1)
    return replace(
        seen,
        recurrence=Recurrence(
            times=len(begun),
            words=say(", every {between}", between=duration(between)),
            measurement=Measurement(f"seconds_between_{phase}s", round(between, 1), "s"),
        ),
    )


def _by(places: Sequence[Place]) -> str:
    """`, by wandb_run.log`: the library's function that took the time."""
    via = next((place.via for place in places if place.via), "")
    return say(", by {via}", via=via) if via else ""


def by_hand(window: ProcessWindow) -> str:
    """What shows one stack sample."""
    return f"py-spy dump --nonblocking --pid {window.ranks[0].pid}"
