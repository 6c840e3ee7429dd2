"""NODE010 nodes-disagree."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import node_names
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import CPU_QUOTA, Preflight
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.node.node_findings import on_nodes

_BREAKS = frozenset({"torch", "nccl", "cuda", "python", "code", "env NCCL_PROTO", "env NCCL_ALGO"})
"""Facts in which a difference breaks the job or changes results; the others cost speed."""
_LONGEST = 80
_CAUSES = {"code": "code", "CPUs": "cpus", CPU_QUOTA: "cpus"}
"""Facts with an advice of their own."""


class NodesDisagree(Check):
    """Nodes of one job differ in what must be equal: a version, a variable, an interface.

    What it finds:
        A driver, torch, NCCL, CUDA or kernel version that differs between nodes. An environment variable
        (`NCCL_*`, `OMP_*`), an MTU, the CPUs and their quota, or the version of the job's code. It
        says which nodes have which value.
    Why it hurts:
        Ranks with other NCCL or torch versions hang or crash at the first collective. Other variables choose
        other algorithms or interfaces: the group stalls. Another MTU loses large packets. Other code trains
        another model.
    How it knows:
        Every node reads the same facts in the job's own environment, and the coordinator compares them. The
        value of most nodes is taken as the intended one.
    False alarms:
        Facts that are read on some nodes only are not compared. Kernel builds of one release may differ
        safely: a note. Addresses, host names and ranks are not facts.
    Remedies:
        Give all nodes the same image, environment and checkout.
    References:
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """

    code = "NODE010"
    reads = frozenset({Reads.PREFLIGHT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if len(found.nodes) < 2:
            raise Unavailable(say("one node took part"))
        for name in sorted({name for node in found.nodes for name in node.facts}):
            by_value: dict[str, list[int]] = defaultdict(list)
            for node in found.nodes:
                if name in node.facts:
                    by_value[node.facts[name]].append(node.index)
            if len(by_value) > 1:
                yield self._finding(found, name, by_value)

    def _finding(self, preflight: Preflight, name: str, by_value: dict[str, list[int]]) -> Finding:
        sizes = Counter({value: len(nodes) for value, nodes in by_value.items()})
        (usual, most), (_, second) = sizes.most_common(2)
        odd = [index for value, nodes in by_value.items() if value != usual for index in nodes]
        clear = most > second
        # A fact at the start of a sentence; names with capitals stay as they are.
        title = name if any(letter.isupper() for letter in name) else name[:1].upper() + name[1:]
        if name.startswith("env "):
            title = say("The variable {name}", name=name.removeprefix("env "))
        if clear:
            others = sorted(value for value in by_value if value != usual)
            shown = _value(others[0]) if len(others) == 1 else say("{others} other values", others=len(others))
            message = say(
                "{title} is {shown} on {node_names} and {value} on {most} nodes.",
                title=title,
                shown=shown,
                node_names=node_names(preflight, odd),
                value=_value(usual),
                most=most,
            )
        else:
            message = say(
                "{title} has {by_value} values on {nodes} nodes; none is the usual one.",
                title=title,
                by_value=len(by_value),
                nodes=len(preflight.nodes),
            )
        breaks = name in _BREAKS
        return on_nodes(
            self,
            preflight,
            message,
            odd if clear else (),
            *(
                Measurement(f"{name} on {node_names(preflight, nodes)}", _value(value), "")
                for value, nodes in sorted(by_value.items(), key=lambda item: -len(item[1]))[:8]
            ),
            subject=name,
            severity=Severity.ERROR if breaks else Severity.NOTE if name == "kernel" else Severity.WARNING,
            breaks=say("ranks with different versions or settings cannot work together") if breaks else "",
            cause="variable" if name.startswith("env ") else _CAUSES.get(name, "version"),
            command=name.removeprefix("env "),
        )


def _value(value: str) -> str:
    text = value if len(value) <= _LONGEST else say("{value}...", value=value[: _LONGEST - 3])
    return text or say("not set")
