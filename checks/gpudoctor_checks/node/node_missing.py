"""NODE008 node-missing."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import LossKind, Preflight
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, count, ranks
from gpudoctor_checks.node.node_findings import on_nodes


class NodeMissing(Check):
    """Ranks did not arrive at the coordinator, or were refused there.

    What it finds:
        Ranks that the launcher announced and that never connected. Ranks that came with another world size,
        rank or version. It gives what was seen: name resolution, a closed port, a time limit.
    Why it hurts:
        The job itself would wait at its rendezvous until the timeout, half an hour by default. Then it
        would die without saying who was missing.
    How it knows:
        Every rank connects to rank 0 by plain TCP before torch is imported. Rank 0 counts who came.
    False alarms:
        A node that boots slowly arrives late; `--wait TIME` gives it more time.
    Remedies:
        Look at the missing node, at the address of rank 0, at firewalls and at the launch line.
    References:
        - https://pytorch.org/docs/stable/elastic/run.html (rendezvous)
    """

    code = "NODE008"
    reads = frozenset({Reads.PREFLIGHT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if found.world < 2 and not found.losses:
            raise Unavailable(say("one rank was started"))
        absent = sorted(loss.rank for loss in found.losses if loss.kind is LossKind.NEVER_CAME)
        if absent:
            yield self._absent(found, absent)
        for loss in found.losses:
            if loss.kind is LossKind.REFUSED:
                who = say("rank {loss_rank}", loss_rank=loss.rank) if loss.rank >= 0 else say("a rank")
                place = say(" on {name}", name=found.name(loss.node)) if loss.node is not None else ""
                message = say("{who}{place} was refused: {loss}.", who=capitalised(who), place=place, loss=loss.words)
                breaks, seen = say("the job's ranks do not form one group"), Measurement("refused", loss.words, "")
                yield on_nodes(self, found, message, (), seen, subject=who, breaks=breaks, cause="refused")

    def _absent(self, preflight: Preflight, absent: list[int]) -> Finding:
        words = {loss.words for loss in preflight.losses if loss.kind is LossKind.NEVER_CAME}
        said = say(": {word}", word=sorted(words)[0]) if len(words) == 1 and any(words) else ""
        named = {loss.node for loss in preflight.losses if loss.kind is LossKind.NEVER_CAME and loss.node is not None}
        came = preflight.world - len(absent)
        return on_nodes(
            self,
            preflight,
            say(
                "{absent} of {world} never came{said}. {ranks} arrived.",
                absent=capitalised(ranks(absent)),
                world=preflight.world,
                said=said,
                ranks=count(came, "rank"),
            ),
            named,
            Measurement("announced", preflight.world, "{ranks}"),
            Measurement("arrived", came, "{ranks}"),
            *(Measurement("seen", item, "") for item in sorted(words) if item),
            subject=ranks(absent),
            breaks=say("the job waits for them until its timeout"),
            cause="absent",
        )
