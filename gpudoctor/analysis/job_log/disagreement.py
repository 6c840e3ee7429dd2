"""Ranks that waited in different collectives."""

from collections import defaultdict

from gpudoctor.analysis.job_log.first_cause import FirstCause
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.signs.job_log import LogEvent
from gpudoctor.text import ranks

_SHOWN = 4


def disagreement(cause: FirstCause) -> str:
    """A sentence about ranks that waited in another collective; "" for none."""
    root = cause.root
    if root is None or not root.waits:
        return ""
    waiting = [item for item, _ in cause.roles if item.waits and item.rank is not None]
    places: dict[tuple[str, str], set[int]] = defaultdict(set)
    seen: set[int] = set()
    for item in sorted(waiting, key=lambda each: each.order):
        if item.rank not in seen and item.rank is not None:  # the first timeout of a rank says where it was
            seen.add(item.rank)
            if _place(item)[0]:
                places[_place(item)].add(item.rank)
    if len(places) < 2:
        return ""
    parts = [
        say(
            "{ranks} in {name}{number}",
            ranks=ranks(sorted(found)),
            name=name[0],
            number=say(" number {name}", name=name[1]) if name[1] else "",
        )
        for name, found in places.items()
    ]
    return say(" The ranks waited in different collectives: {parts}.", parts=concatenated("; ", parts[:_SHOWN]))


def _place(event: LogEvent) -> tuple[str, str]:
    values = dict(event.values)
    return values.get("operation", ""), values.get("sequence", "")
