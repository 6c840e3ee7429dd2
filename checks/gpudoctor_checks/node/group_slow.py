"""NODE013 group-slow."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.accusation import Accused, Aspect
from gpudoctor.analysis.preflight.named_nodes import accused, measurements_of, node_names
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import Stage
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count, rate
from gpudoctor_checks.node.node_findings import on_nodes


class GroupSlow(Check):
    """Nodes that are fast in pairs are slow, or fail, in a large group.

    What it finds:
        A group of many nodes that is slow or fails, though its pairs are good. Halves of the group then
        show the node whose absence makes it good. Otherwise they show the smallest group that still has the
        fault.
    Why it hurts:
        The job runs in the large group: what pairs reach does not help it.
    How it knows:
        After the pairs, `gpudoctor preflight` tests all proven nodes together, then halves filled with proven
        nodes. A node is named if the fault goes with it in two groups.
    False alarms:
        A large group is slower than a pair by nature: it is compared with what its size may lose. A fault
        that does not come back in the same group is called passing.
    Remedies:
        Leave the named nodes out; without a name, look at switches and routes that only many nodes use.
    References:
        - https://arxiv.org/abs/2407.21783 (Llama 3, section 3.3.4)
    """

    code = "NODE013"
    reads = frozenset({Reads.PREFLIGHT})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if not any(test.stage is Stage.GROUP and len(test.nodes) > 2 for test in found.tests):
            raise Unavailable(say("no group of more than two nodes was tested"))
        for item in accused(patient, Accused.GROUP):
            names = node_names(found, item.nodes)
            failed = item.aspect is Aspect.FAILURE
            speed = (
                say(" ({own} in place of {peers})", own=rate(item.own, "B/s"), peers=rate(item.peers, "B/s"))
                if item.own is not None and item.peers is not None and item.aspect is Aspect.BANDWIDTH
                else ""
            )
            one = len(item.nodes) == 1
            size = say(" of {size} nodes and more", size=item.size) if item.size else ""
            what = say("fail") if failed else say("are slow")
            who = say(" with {names}", names=names) if one else say("; the fault is among {names}", names=names)
            yield on_nodes(
                self,
                found,
                say(
                    "Groups{size} {what}{speed}{who}. Their pairs are good.", size=size, what=what, speed=speed, who=who
                ),
                item.nodes if one else (),
                *(measurements_of(found, item.tests) or measurements_of(found, found.tests)),
                subject=names if one else count(len(item.nodes), "node"),
                confidence=item.confidence,
                severity=Severity.ERROR if failed and item.confidence is not Confidence.SUSPECTED else None,
                breaks=say("the whole job cannot communicate") if failed else "",
                cause="one" if one else "many",
            )
