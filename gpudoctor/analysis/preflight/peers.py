"""Which units or nodes differ from their peers in one quantity: a share of the median and a robust z-score.

Peers have the same name: in a fleet of two kinds of card each is compared with its own kind. Both conditions
must hold, because each alone misleads: eight figures that are equal but for noise have a tiny spread, and a
noisy quantity puts healthy cards far from the median.
"""

from collections.abc import Hashable, Iterable, Mapping
from statistics import median
from typing import Generic, TypeVar

from gpudoctor.model.finding import Confidence
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import Figure, Quantity, Unit

Key = TypeVar("Key", bound=Hashable)

FLOOR = 0.02
"""Least robust standard deviation, as a share of the median: equal cards differ by 1 to 2 % of their own.

Cards of one kind differ by up to 5 % in matrix products (stas00/ml-engineering, compute/accelerator/README.md,
"Not all accelerators are created equal").
"""
LEAST = 3
"""Of two, neither can be told to be the wrong one."""
FEW = 5
"""With fewer peers an outlier is no more than suspected (three) or probable (four)."""
LOWER_IS_BETTER = frozenset({Quantity.LATENCY, Quantity.RETRANSMITTED, Quantity.TEMPERATURE})


@frozen
class PeerComparison(Generic[Key]):
    """One unit or node beside its peers."""

    key: Key
    value: float
    peers: float
    """Median of its kind, itself included."""
    count: int
    """How many are of its kind, itself included."""
    share: float
    """Of the peers' speed: below 1 is worse, for a latency or a temperature too."""
    deviations: float
    """Robust standard deviations by which it is worse; negative if it is better."""

    @property
    def confidence(self) -> Confidence:
        """How sure it is that this one is wrong and not its peers."""
        if self.count <= LEAST:
            return Confidence.SUSPECTED
        return Confidence.CONFIRMED if self.count >= FEW else Confidence.PROBABLE


def outliers(
    values: Mapping[Key, float],
    *,
    share: float,
    deviations: float,
    kinds: Mapping[Key, str] | None = None,
    spread: float = 0.0,
    lower_is_better: bool = False,
) -> tuple[PeerComparison[Key], ...]:
    """Those worse than `share` of their kind's median and by at least `deviations`, the worst first.

    Kinds of fewer than three are left out. `spread` is what repetitions of one measurement vary by
    (`Figure.spread`): less than that is no difference.
    """
    groups: dict[str, dict[Key, float]] = {}
    for key, value in values.items():
        if value > 0:
            groups.setdefault((kinds or {}).get(key, ""), {})[key] = value
    found = []
    for group in groups.values():
        if len(group) < LEAST:
            continue
        centre = median(group.values())
        mad = median(abs(value - centre) for value in group.values())
        deviation = centre * max(FLOOR, 1.4826 * mad / centre, 1.4826 * spread)
        for key, value in group.items():
            own = centre / value if lower_is_better else value / centre
            below = (value - centre if lower_is_better else centre - value) / deviation
            if own < share and below >= deviations:
                found.append(
                    PeerComparison(
                        key=key, value=value, peers=centre, count=len(group), share=own, deviations=below
                    )
                )  # fmt: skip
    return tuple(sorted(found, key=lambda item: item.share))


def unit_outliers(
    units: Iterable[Unit], quantity: Quantity, *, share: float, deviations: float, dtype: str = ""
) -> tuple[PeerComparison[tuple[int, int]], ...]:
    """Outliers among units, by node and local index; peers have a card or processor of the same name."""
    figures: dict[tuple[int, int], Figure] = {}
    names: dict[tuple[int, int], str] = {}
    for unit in units:
        figure = unit.figure(quantity, dtype)
        if figure is not None:
            figures[unit.node, unit.local] = figure
            names[unit.node, unit.local] = unit.name
    return outliers(
        {key: figure.value for key, figure in figures.items()},
        share=share,
        deviations=deviations,
        kinds=names,
        spread=median(figure.spread for figure in figures.values()) if figures else 0.0,
        lower_is_better=quantity in LOWER_IS_BETTER,
    )
