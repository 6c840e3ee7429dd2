"""Findings on units that reach less than their peers, or less than the same card reaches elsewhere."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpudoctor.analysis.preflight.named_nodes import NodesDetail, hosts, node_names, unit_name
from gpudoctor.analysis.preflight.peers import PeerComparison, unit_outliers
from gpudoctor.analysis.preflight.references import Reference, ReferenceKind, references_for
from gpudoctor.lang import say
from gpudoctor.model.check import OWN_CHOICE, Check, Threshold
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.finding import Confidence, Finding
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import Figure, Preflight, Quantity, Unit
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, count, percent, quantity


@frozen(kw_only=False)
class UnitQuantity:
    """What a check asks of each unit."""

    quantity: Quantity
    words: str
    """Of a sentence: `GPU 3 of node17 reached 510 TFLOP/s in {words}`."""
    dtype: str = ""


def peer_thresholds(*, slower: float, against_reference: float | None) -> tuple[Threshold, ...]:
    """The thresholds `peers`, `deviations` and, where a table of references exists, `reference`."""
    found = (
        Threshold(
            "peers",
            slower,
            "1",
            f"{OWN_CHOICE}; healthy cards of one kind differ by up to 5 % (stas00/ml-engineering)",
            "A unit slower than the median of its peers by more than this share is reported ...",
        ),
        Threshold(
            "deviations",
            5.0,
            "1",
            f"{OWN_CHOICE}; of normal figures one in three million is that far off",
            "... if it is also so many robust standard deviations below them.",
        ),
    )
    if against_reference is None:
        return found
    return (
        *found,
        Threshold(
            "reference",
            against_reference,
            "1",
            f"{OWN_CHOICE}; references are the best of many shapes, a test has one",
            "A unit slower than a measured reference by more than this share is reported.",
        ),
    )


def slow_units(
    check: Check, preflight: Preflight, asked: Sequence[UnitQuantity], *, device: str = "cuda"
) -> Iterator[Finding]:
    """Findings on units that are slow in a quantity, one a unit; raises `Unavailable` without a figure.

    The check's thresholds are those of `peer_thresholds`.
    """
    share, deviations = 1 - check.limit("peers"), check.limit("deviations")
    units = [unit for unit in preflight.units if unit.device == device]
    if not units:
        raise Unavailable(say("no card was measured") if device == "cuda" else say("no processor was measured"))
    if not any(unit.figure(item.quantity, item.dtype) for unit in units for item in asked):
        raise Unavailable("nothing measured {words}", words=asked[0].words)
    seen: set[tuple[int, int]] = set()
    by_place = {(unit.node, unit.local): unit for unit in units}
    for item in asked:
        for outlier in unit_outliers(units, item.quantity, dtype=item.dtype, share=share, deviations=deviations):
            if outlier.key not in seen:
                seen.add(outlier.key)
                yield _below_peers(check, preflight, by_place[outlier.key], item, outlier)
    if any(threshold.name == "reference" for threshold in check.thresholds):
        rest = [unit for unit in units if (unit.node, unit.local) not in seen]
        yield from _below_references(check, preflight, rest, asked, check.limit("reference"))


def _below_peers(
    check: Check, preflight: Preflight, unit: Unit, asked: UnitQuantity, outlier: PeerComparison[tuple[int, int]]
) -> Finding:
    measure = asked.quantity.unit
    name = unit_name(preflight, unit)
    return check.finding(
        say(
            "{unit} reached {own} in {words}. The median of {units} is {peers}: {share} slower.",
            unit=capitalised(name),
            own=quantity(outlier.value, measure),
            words=asked.words,
            units=count(outlier.count, "equal unit"),
            peers=quantity(outlier.peers, measure),
            share=percent(1 - outlier.share),
        ),
        evidence=(
            Measurement(f"own_{asked.quantity.value}", outlier.value, measure),
            Measurement("median_of_peers", outlier.peers, measure),
            Measurement("peers", outlier.count, "{units}"),
            Measurement("robust_deviations", round(outlier.deviations, 1), ""),
        ),
        confidence=outlier.confidence,
        subject=name,
        detail=NodesDetail(hosts=hosts(preflight, (unit.node,))),
    )


def _below_references(
    check: Check, preflight: Preflight, units: Sequence[Unit], asked: Sequence[UnitQuantity], slower: float
) -> Iterator[Finding]:
    """One finding for all units of a card that stay below the same reference."""
    low: dict[tuple[str, UnitQuantity], list[tuple[Unit, Figure, Reference]]] = defaultdict(list)
    for item in asked:
        for unit in units:
            figure = unit.figure(item.quantity, item.dtype)
            row = _missed(slower, unit.name, figure) if figure else None
            if figure is not None and row is not None:
                low[unit.name, item].append((unit, figure, row))
    for (card, what), items in low.items():
        yield _below_reference(check, preflight, card, what.words, items)


def _missed(slower: float, card: str, figure: Figure) -> Reference | None:
    for row in references_for(card, figure):
        if row.kind is ReferenceKind.MEASURED and figure.value < (1 - slower) * row.value:
            return row
        if row.kind is ReferenceKind.FLOOR and figure.value < row.value:
            return row
    return None


def _below_reference(
    check: Check, preflight: Preflight, card: str, words: str, items: list[tuple[Unit, Figure, Reference]]
) -> Finding:
    unit, figure, row = min(items, key=lambda item: item[1].value)
    everyone = len(items) == sum(other.name == card for other in preflight.units)
    nodes = {item[0].node for item in items}
    one = len(items) == 1
    who = (
        unit_name(preflight, unit)
        if one
        else say("{units} {card} on {nodes}", units=len(items), card=card, nodes=node_names(preflight, nodes))
    )
    own, other = quantity(figure.value, figure.unit), quantity(row.value, row.quantity.unit)
    reached = say("{own} in {words}", own=own, words=words)
    if not one:
        reached = say("at least {reached}", reached=reached)
    elsewhere = (
        say("an operator rejects less than {other}", other=other)
        if row.kind is ReferenceKind.FLOOR
        else say("this card was measured elsewhere at {other}", other=other)
    )
    return check.finding(
        say("{who} reached {reached}; {elsewhere}.", who=capitalised(who), reached=reached, elsewhere=elsewhere),
        evidence=(
            Measurement(f"own_{row.quantity.value}", figure.value, figure.unit),
            Measurement(f"reference, {row.source}", row.value, figure.unit, provenance=Provenance.DECLARED),
        ),
        confidence=Confidence.PROBABLE,
        subject=who,
        detail=NodesDetail(hosts=() if everyone else hosts(preflight, nodes), cause="everyone" if everyone else ""),
    )
