"""NODE006 network-slow."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.accusation import Accusation, Accused, Aspect
from gpudoctor.analysis.preflight.named_nodes import accused, judgement, node_names
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count, percent, rate
from gpudoctor_checks.node.node_findings import on_accused


class NetworkSlow(Check):
    """A node, or the path between two nodes, is slower than the others, or fails.

    What it finds:
        A node that is slow with every partner. A path between two nodes that are fast with others. A rack or
        subnet whose nodes are all slow. A test that fails or does not end counts as well.
    Why it hurts:
        Each step ends with the slowest path: one bad link slows all ranks of the job, or stops them.
    How it knows:
        `gpudoctor preflight` tests disjoint pairs of nodes at once, then each suspect beside proven nodes.
        Large messages only: latency is NODE007, lost packets are NODE018. A node is accused if the median of
        its tests is 15 % and five robust standard deviations below its peers'.
    False alarms:
        Partners of a slow node are tested again beside proven nodes. Paths across racks are compared with
        paths across racks. One slow test does not suffice. With two nodes only the path between them can be
        named.
    Remedies:
        Leave the node out, then look at its cable, port, driver of the adapter and switch.
    References:
        - https://arxiv.org/abs/2403.07648 (slow links in production)
    """

    code = "NODE006"
    reads = frozenset({Reads.PREFLIGHT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if not any(len(test.nodes) > 1 for test in found.tests):
            raise Unavailable(say("no two nodes were tested together"))
        for item in accused(patient, Accused.NODE, Accused.LINK, Accused.DOMAIN):
            if item.aspect not in (Aspect.BANDWIDTH, Aspect.FAILURE):
                continue
            names, proven = node_names(found, item.nodes), len(judgement(patient).proven)
            failed = item.aspect is Aspect.FAILURE
            yield on_accused(
                self,
                found,
                _message(names, item, failed),
                item,
                severity=Severity.ERROR if failed else Severity.WARNING,
                breaks=say("the job cannot communicate there") if failed else "",
                cause="" if proven else "few",
            )


def _message(names: str, item: Accusation, failed: bool) -> str:
    where = say("The path between {names}", names=names) if item.accused is Accused.LINK else names
    tests = count(len(item.tests), "test")
    if failed:
        return say("{where} failed in {tests}: {failure}.", where=where, tests=tests, failure=item.tests[0].failure)
    if item.own is None or item.peers is None or item.share is None:
        return say("{where} was slow in {tests}.", where=where, tests=tests)
    far = say(" with nodes of other racks") if item.far_only else ""
    return say(
        "{where} reached {own}{far} in {tests}, its peers {peers}: {share} slower.",
        where=where,
        own=rate(item.own, "B/s"),
        far=far,
        tests=tests,
        peers=rate(item.peers, "B/s"),
        share=percent(1 - item.share),
    )
