"""An active examination in words and rows, for every format that people read."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

from gpudoctor.analysis.preflight.named_nodes import unit_name
from gpudoctor.analysis.preflight.peers import LOWER_IS_BETTER
from gpudoctor.lang import rendered, say, term, tr
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import Figure, Preflight, Quantity, Stage
from gpudoctor.text import chained, count, duration, quantity

_TITLES = {
    Quantity.MATMUL: say("matrix product"),
    Quantity.MEMORY_BANDWIDTH: say("memory copy"),
    Quantity.HOST_TO_DEVICE: say("host to device"),
    Quantity.DEVICE_TO_HOST: say("device to host"),
    Quantity.PEER_BANDWIDTH: say("card to card"),
    Quantity.BUS_BANDWIDTH: say("bus bandwidth"),
    Quantity.ONE_WAY_BANDWIDTH: say("one-way bandwidth"),
    Quantity.LATENCY: say("small message"),
    Quantity.RETRANSMITTED: say("segments sent again"),
    Quantity.WRITE_BANDWIDTH: say("storage write"),
    Quantity.READ_BANDWIDTH: say("storage read"),
    Quantity.CLOCK: say("clock under load"),
    Quantity.POWER: say("power under load"),
    Quantity.TEMPERATURE: say("temperature under load"),
}
_WHERE = {Stage.NODE: say("in a node"), Stage.PAIRS: say("of two nodes"), Stage.GROUP: say("of a group")}


@frozen(kw_only=False)
class FigureRow:
    """One quantity over all who measured it."""

    title: str
    worst: str
    """With who reached it."""
    middle: str
    best: str
    measured: int
    """By how many units, nodes or groups."""


def preflight_facts(found: Preflight) -> list[str]:
    """For headings: `8 nodes`, `64 x NVIDIA H100 80GB HBM3`, `nccl`, `41 s`."""
    names = Counter(unit.name for unit in found.units)
    cards = [f"{number} x {name}" if number > 1 else name for name, number in names.items()]
    nodes = count(len(found.nodes), "node") if found.nodes else ""  # rank 0 was lost before it counted them
    parts = [rendered(nodes), rendered(count(found.world, "rank")), *cards, found.backend]
    return [
        part
        for part in (*parts, tr("{mode}, {seconds}", mode=term(found.mode), seconds=duration(found.seconds)))
        if part
    ]


def figure_rows(found: Preflight) -> list[FigureRow]:
    """A row for each quantity that was measured: the worst with its place, the median, the best."""
    values: dict[str, list[tuple[Figure, str]]] = defaultdict(list)
    for title, figure, who in _figures(found):
        values[title].append((figure, who))
    return [_row(title, items) for title, items in values.items()]


def _figures(found: Preflight) -> Iterator[tuple[str, Figure, str]]:
    for unit in found.units:
        for figure in unit.figures:
            kind = concatenated(" ", filter(None, (figure.dtype, _TITLES[figure.quantity])))
            last = tr(", {when} part", when=term(figure.when)) if figure.when else ""
            yield rendered(kind) + last, figure, unit_name(found, unit)
    for test in found.tests:
        for figure in test.figures:
            names = [found.name(node) for node in test.nodes]
            yield (
                rendered(concatenated(" ", filter(None, (_TITLES[figure.quantity], _WHERE.get(test.stage))))),
                figure,
                (rendered(chained(names)) if len(names) <= 2 else tr("{names} nodes", names=len(names))),
            )
    for item in found.storage:
        for figure in item.figures:
            yield (
                tr("{titles} {folder}", titles=_TITLES[figure.quantity], folder=item.folder),
                figure,
                found.name(item.node),
            )


def _row(title: str, items: Iterable[tuple[Figure, str]]) -> FigureRow:
    ordered = sorted(items, key=lambda item: item[0].value)
    unit = ordered[0][0].unit
    if ordered[0][0].quantity in LOWER_IS_BETTER:
        ordered.reverse()
    (worst, who), (best, _) = ordered[0], ordered[-1]
    middle = median(figure.value for figure, _ in ordered)
    return FigureRow(
        title=title,
        worst=tr("{worst} ({who})", worst=quantity(worst.value, unit), who=who),
        middle=quantity(middle, unit),
        best=quantity(best.value, unit),
        measured=len(ordered),
    )


def untested(found: Preflight) -> list[str]:
    """What was not examined, and stages that did not end, a sentence each."""
    cut = [
        tr("The stage {stage} reached its limit of {limit}.", stage=term(item.stage.value), limit=duration(item.limit))
        for item in found.stages
        if not item.ended
    ]
    return [*map(rendered, found.untested), *cut]
