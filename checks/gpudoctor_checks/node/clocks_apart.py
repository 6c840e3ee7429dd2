"""NODE011 clocks-apart."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration
from gpudoctor_checks.node.node_findings import on_nodes


class ClocksApart(Check):
    """The wall clock of a node differs from the clocks of the others.

    What it finds:
        A node whose clock is a second or more away from the median of all nodes.
    Why it hurts:
        Logs of several nodes cannot be put in order. Tokens and certificates are refused, and `make` and
        caches compare times of files wrongly. Schedulers and lease-based stores declare live nodes dead.
    How it knows:
        The coordinator asks each node for its time and uses the shortest of several round trips. Half of that
        round trip is the uncertainty, and only what exceeds it counts.
    False alarms:
        A slow connection makes the uncertainty greater, not the finding.
    Remedies:
        Start chrony or systemd-timesyncd there.
    References:
        - https://chrony-project.org/documentation.html
    """

    code = "NODE011"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = (
        Threshold("seconds", 1.0, "s", "convention: logs print seconds; chrony holds milliseconds",
                  "An offset beyond its uncertainty of so many seconds is a warning."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        known = [(node, node.clock_offset) for node in found.nodes if node.clock_offset is not None]
        if len(known) < 2:
            raise Unavailable(say("the clocks of fewer than two nodes were compared"))
        if len(known) == 2:  # of two, neither is the right one: the second beside the first
            (first, reference), *known = known
            whom = found.name(first.index)
        else:
            reference, whom = median(offset for _, offset in known), say("the median of all nodes")
        for node, offset in known:
            apart = offset - reference
            if abs(apart) - node.clock_error < self.limit("seconds"):
                continue
            way = say("ahead of") if apart > 0 else say("behind")
            yield on_nodes(
                self,
                found,
                say(
                    "The clock of {name} is {apart} {way} {whom}.",
                    name=found.name(node.index),
                    apart=duration(abs(apart)),
                    way=way,
                    whom=whom,
                ),
                [node.index],
                Measurement("clock_offset", apart, "s", reproduce="chronyc tracking"),
                Measurement("uncertainty", node.clock_error, "s"),
                subject=found.name(node.index),
            )
