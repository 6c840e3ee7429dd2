"""NODE018 packets-lost."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.accusation import Accused, Aspect
from gpudoctor.analysis.preflight.named_nodes import accused, path_or_nodes
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, count, percent
from gpudoctor_checks.node.node_findings import on_accused


class PacketsLost(Check):
    """The network loses packets of one node, or between two nodes, far more often than of the others.

    What it finds:
        A node or a path whose TCP connections send more than a thousandth of their segments again. It is
        also more than five times the median test's share.
    Why it hurts:
        TCP hides a lost packet, and the rate of large messages may stay good. A small message that is lost
        waits for a time limit of 200 ms or more. Each step ends with the slowest message.
    How it knows:
        After each test of two nodes, `gpudoctor preflight` reads the kernel's count of each TCP connection
        (TCP_INFO). It has the segments sent and those sent again. A node is accused after
        lossy tests beside several proven nodes, as in NODE006.
    False alarms:
        Congestion loses packets too, of all nodes alike: a test is compared with the median of all tests. What
        RDMA carries is not counted.
    Remedies:
        Look at the errors and drops of the adapter, its cable and the switch's port. Leave the node out.
    References:
        - https://doi.org/10.1145/2785956.2787496 (Pingmesh: loss of healthy data centres)
    """

    code = "NODE018"
    reads = frozenset({Reads.PREFLIGHT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if not any(test.figure(Quantity.RETRANSMITTED) for test in found.tests):
            raise Unavailable(say("no TCP connection between two nodes was counted"))
        for item in accused(patient, Accused.NODE, Accused.LINK, Accused.DOMAIN):
            own, peers = item.own, item.peers
            if item.aspect is not Aspect.LOSS or own is None or peers is None:
                continue
            message = say(
                "the network loses packets {where}: TCP sent {own} of its segments again in {tests}, the "
                "median test {peers}.",
                where=path_or_nodes(found, item),
                own=percent(own),
                tests=count(len(item.tests), "test"),
                peers=percent(peers) if peers >= 0.001 else say("less than 0.1 %"),
            )
            yield on_accused(
                self,
                found,
                capitalised(message),
                item,
                Measurement("sent_again", own, "1", reproduce="nstat -az TcpRetransSegs TcpOutSegs"),
                Measurement("median_test", peers, "1"),
            )
