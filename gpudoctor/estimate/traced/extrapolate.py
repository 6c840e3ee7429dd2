"""From traces of a few blocks to the whole model: each window's peak grows by the same bytes with each group of
blocks, so two depths tell all."""

from collections.abc import Mapping

from gpudoctor.estimate.real.config import Pattern
from gpudoctor.estimate.traced.ledger import Ledger, TracedPeak, TracedWindow
from gpudoctor.model.records import field, frozen

Role = tuple[str, str, int, int, int]
"""Phase, which end of the row of blocks (`first`, `last`, ""), which half, place from that end, micro batch."""


@frozen
class Depth:
    """What a trace of some blocks says."""

    layers: int
    """Blocks of each half that were traced."""
    roles: Mapping[Role, Mapping[str, int]]
    """The worst moment of each window, bytes by kind."""
    scalars: Mapping[str, int] = field(default_factory=dict)
    """Other numbers that grow with the blocks: parameters, weights, adapters."""


def depth_of(ledger: Ledger, pattern: Pattern, layers: int, scalars: Mapping[str, int]) -> Depth:
    """The windows of the last step under names that hold at any depth."""
    peaks = ledger.peaks()
    last = max(window.step for window, _ in peaks)
    found: dict[Role, TracedPeak] = {}
    for window, peak in peaks:
        late = window.step == last or window.phase == "step"
        role = _role(window, pattern, layers)
        if window.phase in {"load", "fill"} or not late or role is None:
            continue
        if role not in found or found[role].bytes < peak.bytes:
            found[role] = peak
    return Depth(layers=layers, roles={role: peak.kinds for role, peak in found.items()}, scalars=scalars)


def _role(window: TracedWindow, pattern: Pattern, layers: int) -> Role | None:
    """None for an inner block: its windows lie on the line between those at the ends."""
    if window.block < 0:
        return (window.phase, "", 0, 0, window.micro)
    half, at = divmod(window.block, layers)
    from_end = layers - 1 - at
    if from_end < pattern.period:
        return (window.phase, "last", half, from_end, window.micro)
    return (window.phase, "first", half, at, window.micro) if at < pattern.start else None


@frozen
class Grown:
    """One number at the depth of the whole model, and how it came about."""

    bytes: int
    """At the whole depth."""
    base: int
    """At the least depth that was traced."""
    slope: int
    """More with each group of blocks."""
    groups: int
    """Groups of blocks beyond that depth."""


def grow(low: int, high: int, groups: int) -> Grown:
    """The straight line through two depths, one group apart."""
    return Grown(bytes=low + (high - low) * groups, base=low, slope=high - low, groups=groups)


def whole(depths: tuple[Depth, ...], pattern: Pattern) -> dict[Role, dict[str, Grown]]:
    """Every window at the whole model's depth, by kind. Windows between the first and the last blocks lie on
    the line between them and cannot be higher than both."""
    low, high = depths[0], depths[-1]
    groups = (pattern.layers - low.layers) // pattern.period if high is not low else 0
    found = {}
    for role, kinds in low.roles.items():
        above = high.roles.get(role, kinds)
        names = dict.fromkeys([*kinds, *above])
        found[role] = {name: grow(kinds.get(name, 0), above.get(name, 0), groups) for name in names}
    return found
