"""NODE016 machine-unfit."""

from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import node_names
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import MachineFinding, Preflight
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.node.node_findings import on_nodes

_SEVERITIES = {item.value: item for item in Severity}


class MachineUnfit(Check):
    """The checks of single machines found something on one or more nodes.

    What it finds:
        What `gpudoctor check` finds on a machine: drivers, memory errors, Xid messages, clocks, PCIe, NVLink,
        shared memory, limits. Equal findings of several nodes are one finding that names the nodes.
    Why it hurts:
        One unfit node stops or slows the whole job. The check's own page says how.
    How it knows:
        Each node examines itself in the job's environment. The finding carries the code of the check that
        made it: `gpudoctor explain CODE`.
    False alarms:
        Those of the check that made it. What all nodes share may be intended: it keeps the check's severity.
    Remedies:
        The first remedy of the check that made it, on the nodes that it names.
    References:
        - https://github.com/leptonai/gpud (the same idea for one machine)
    """

    code = "NODE016"
    reads = frozenset({Reads.PREFLIGHT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if len(found.nodes) == 1:
            raise Unavailable(say("one node: the checks of its machine are in the same report"))
        if all(node.unexamined and not node.findings for node in found.nodes):
            raise Unavailable(say("no machine was examined"))
        merged: dict[tuple[str, str], list[tuple[int, MachineFinding]]] = defaultdict(list)
        for node in found.nodes:
            for item in node.findings:
                merged[item.code, item.severity].append((node.index, item))
        for items in merged.values():
            yield self._finding(found, items)

    def _finding(self, preflight: Preflight, items: list[tuple[int, MachineFinding]]) -> Finding:
        nodes = sorted({index for index, _ in items})
        first = items[0][1]
        severity = _SEVERITIES.get(first.severity, Severity.WARNING)
        everywhere = len(nodes) == len(preflight.nodes)
        where = node_names(preflight, nodes) if not everywhere or len(nodes) == 1 else say("every node")
        return on_nodes(
            self,
            preflight,
            say(
                "On {nodes}, {code} {name}: {message}",
                nodes=where,
                code=first.code,
                name=first.name,
                message=first.message,
            ),
            nodes if severity is Severity.ERROR and not everywhere else (),
            *(
                Measurement(
                    f"{item.code} on {preflight.name(at)}", item.message, "", reproduce=f"gpudoctor explain {item.code}"
                )
                for at, item in items[:8]
            ),
            subject=f"{first.code} on {where}",
            severity=severity,
            breaks=say("the job fails on this node") if severity is Severity.ERROR else "",
            cause=first.code,
            command=first.fix,
        )
