"""NODE009 rank-lost."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import Loss, LossKind, Preflight, Stage
from gpudoctor.text import capitalised
from gpudoctor_checks.node.node_findings import on_nodes

_BY = {LossKind.DIED: say("died"), LossKind.SILENT: say("stopped answering"), LossKind.STUCK: say("did not finish")}
_DOING = {
    Stage.ARRIVE: say("while ranks arrived"),
    Stage.MACHINE: say("in the checks of its machine"),
    Stage.CARD: say("in the test of single cards"),
    Stage.NODE: say("in the test inside its node"),
    Stage.PAIRS: say("in the test of pairs of nodes"),
    Stage.GROUP: say("in the test of all nodes together"),
    Stage.STORAGE: say("in the test of storage"),
    Stage.BURN: say("under lasting load"),
}


class RankLost(Check):
    """A rank died, fell silent or got stuck during the examination.

    What it finds:
        A rank that took part and did not reach the end. Its process died, its connection answers nothing,
        or its stage did not end within the limit. The finding names the stage, and the stack if it could be
        read.
    Why it hurts:
        A training on this node would die or hang in the same place.
    How it knows:
        Each rank sends a sign of life every second. Each stage has a time limit, after which the stack of the
        process is taken and the process is ended.
    False alarms:
        A rank that was killed by hand looks the same. On a machine with too little CPU a limit may be too
        short: the finding gives the seconds.
    Remedies:
        Read the stack, look at the node's kernel log, leave the node out.
    References:
        - https://docs.python.org/3/library/faulthandler.html
    """

    code = "NODE009"
    reads = frozenset({Reads.PREFLIGHT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        for loss in found.losses:
            if loss.kind in _BY:
                yield self._finding(found, loss)

    def _finding(self, preflight: Preflight, loss: Loss) -> Finding:
        place = say(" on {name}", name=preflight.name(loss.node)) if loss.node is not None else ""
        run = next((item for item in preflight.stages if item.stage is loss.stage), None)
        words = say(": {loss}", loss=loss.words) if loss.words else ""
        at = say(" It stood at {stack}.", stack=loss.stack[-1]) if loss.stack else ""
        limit = (Measurement("limit", run.limit, "s"),) if run else ()
        return on_nodes(
            self,
            preflight,
            say(
                "{rank}{place} {by} {doing}{detail}.{at}",
                rank=capitalised(say("rank {loss_rank}", loss_rank=loss.rank)),
                place=place,
                by=_BY[loss.kind],
                doing=_DOING[loss.stage],
                detail=words,
                at=at,
            ),
            () if loss.node is None else (loss.node,),
            Measurement("stage", loss.stage.value, ""),
            Measurement("seen", loss.words or loss.kind.value, ""),
            *limit,
            *(Measurement(f"frame_{at}", frame, "") for at, frame in enumerate(reversed(loss.stack[-6:]))),
            subject=f"rank {loss.rank}",
            breaks=say("a job on this node dies or hangs"),
            cause=loss.kind.value,
        )
