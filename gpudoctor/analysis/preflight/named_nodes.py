"""Who is accused, as findings name it: nodes by host name, units by node and card."""

from collections.abc import Iterable, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.preflight.accusation import Accusation, Accused, Judgement
from gpudoctor.analysis.preflight.judging import judge
from gpudoctor.analysis.preflight.search_plan import plan_for
from gpudoctor.lang import say
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Detail
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import LinkTest, Preflight, Unit
from gpudoctor.text import joined

_FEW = 6
"""Names in one sentence; more of them are counted."""


@frozen
class NodesDetail(Detail):
    """What the rules of the topic NODE read."""

    hosts: tuple[str, ...]
    """Host names that a scheduler can exclude; empty where leaving a node out does not help."""
    cause: str = ""
    """What tells one advice from another: a word that the check documents."""
    command: str = ""
    """A line that shows it again, with this job's names."""

    @property
    def spaced(self) -> str:
        """The host names with blanks between them."""
        return " ".join(self.hosts)

    @property
    def host(self) -> str:
        """The first host name."""
        return self.hosts[0] if self.hosts else ""

    def placeholders(self) -> Mapping[str, object]:
        """The fields, `hosts` with commas between them, `spaced` and `host`."""
        return {
            "hosts": ",".join(self.hosts), "spaced": self.spaced, "host": self.host, "cause": self.cause,
            "command": self.command,
        }  # fmt: skip


@once
def judgement(patient: Patient) -> Judgement:
    """What the tests between nodes say, by the plan of the mode; raises `Unavailable` without a preflight."""
    found = patient.preflight
    lost = {loss.node for loss in found.losses if loss.node is not None}
    return judge(found.nodes, found.tests, lost, plan_for(found.mode, found.units))


def accused(patient: Patient, *kinds: Accused) -> list[Accusation]:
    """The accusations of these kinds, worst first."""
    found = [item for item in judgement(patient).accusations if item.accused in kinds]
    return sorted(found, key=lambda item: (item.share if item.share is not None else 0.0, item.nodes))


def node_names(preflight: Preflight, nodes: Iterable[int]) -> str:
    """`node17`, `node17 and node18`, `9 nodes (node1, node2, ... and others)`."""
    names = [preflight.name(index) for index in sorted(set(nodes))]
    if len(names) <= _FEW:
        return joined(names) if names else ""
    return say("{count} nodes ({names} and others)", count=len(names), names=", ".join(names[:_FEW]))


def path_or_nodes(preflight: Preflight, item: Accusation) -> str:
    """What is accused, behind a noun: `between node1 and node2` for a path, else `of node1`."""
    names = node_names(preflight, item.nodes)
    return say("between {names}", names=names) if item.accused is Accused.LINK else say("of {names}", names=names)


def hosts(preflight: Preflight, nodes: Iterable[int]) -> tuple[str, ...]:
    """Host names without repetition, in the order of the nodes."""
    return tuple(dict.fromkeys(preflight.nodes[index].name for index in sorted(set(nodes))))


def unit_name(preflight: Preflight, unit: Unit) -> str:
    """`GPU 3 of node17`, `the CPUs of node17`."""
    node = preflight.name(unit.node)
    if unit.device == "cpu":
        return say("the CPUs of {node}", node=node)
    return say("GPU {local} of {node}", local=unit.local, node=node)


def measurements_of(preflight: Preflight, tests: Iterable[LinkTest]) -> tuple[Measurement, ...]:
    """The figures of tests as evidence: one line a figure, the failed ones in words."""
    lines: list[Measurement] = []
    for test in tests:
        title = "_".join(preflight.name(node) for node in test.nodes[:4])
        if len(test.nodes) > 4:
            title = f"{len(test.nodes)}_nodes"
        if test.failure:
            lines.append(Measurement(f"test_{title}", test.failure, ""))
        lines += [Measurement(f"{item.quantity.value}_{title}", item.value, item.unit) for item in test.figures]
    return tuple(lines[:8])
