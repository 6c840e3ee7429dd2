"""NODE007 latency-high."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.accusation import Accused, Aspect
from gpudoctor.analysis.preflight.named_nodes import accused, path_or_nodes
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, duration
from gpudoctor_checks.node.node_findings import on_accused


class LatencyHigh(Check):
    """Small messages of one node, or between two nodes, take longer than those of the others.

    What it finds:
        A node or a path whose small messages take half as long again as its peers'. Their bandwidth may be
        good.
    Why it hurts:
        Small collectives (norms, flags, pipeline stages, the last bytes of a ring) pay latency at each hop. A
        lossy link shows as latency first.
    How it knows:
        `gpudoctor preflight` sends small messages between pairs of nodes, apart from the large ones. It judges
        them as NODE006 judges bandwidth.
    False alarms:
        A node is compared with pairs as far apart as its own. One late test does not suffice.
    Remedies:
        Leave the node out; look for a lossy cable, a busy core of interrupts, power saving of the processor.
    References:
        - https://docs.nvidia.com/networking/display/ethtool (error and discard counters)
    """

    code = "NODE007"
    reads = frozenset({Reads.PREFLIGHT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if not any(len(test.nodes) > 1 and test.figure(Quantity.LATENCY) for test in found.tests):
            raise Unavailable(say("no latency between two nodes was measured"))
        for item in accused(patient, Accused.NODE, Accused.LINK, Accused.DOMAIN):
            if item.aspect is not Aspect.LATENCY or item.own is None or item.peers is None:
                continue
            message = say(
                "a small message {where} takes {own}, one of its peers {peers}.",
                where=path_or_nodes(found, item),
                own=duration(item.own),
                peers=duration(item.peers),
            )
            yield on_accused(self, found, capitalised(message), item)
