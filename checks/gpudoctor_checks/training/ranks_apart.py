"""TRAIN011: the ranks of a job do not train one model."""

from collections.abc import Iterator

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen

_SAID = {
    "alone": template(
        "The gradients of {name} differ between the ranks in all {looks} looks: {values}. Each rank trains a "
        "model of its own."
    ),
    "begun": template(
        "The ranks share their gradients, and their weights differ in all {looks} looks: they did not begin alike."
    ),
}


@frozen
class RanksApartDetail(Detail):
    """What the rule reads."""

    kind: str
    """`alone`, `begun`."""


class RanksApart(Check):
    """The ranks of a job do not train one model: gradients or weights differ.

    What it finds:
        In a recorded run of several ranks: gradients that nothing shares, as where the inner module of DDP is
        called, and shared gradients, applied to weights that were different from the start.
    Why it hurts:
        Each rank learns from its own part of the data alone. The file has the model of one of them.
    How it knows:
        Each rank sums a few small parameters and their gradients after its steps 1, 2, 4, 8 and so on. Where the
        ranks train one model, these sums are equal.
    False alarms:
        Sharded models (FSDP, ZeRO) are not compared, and neither are ranks with parameters of other names. Ranks
        that train models of their own on purpose are reported if they have joined in a process group.
    Remedies:
        Call the wrapped model, not its `module`.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code = Code("TRAIN011")
    name = "ranks-apart"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """One finding."""
        from gpudoctor.analysis.run.line_costs import place_of
        from gpudoctor.analysis.run.training.ranks import apart

        run = demanded(patient, 1)
        seen = apart(run.recording)
        if seen is None or not seen.kind:
            return
        model = run.recording.ranks[0].first("model")
        places = [place_of(item) for item in (seen.record, model) if item is not None]
        values = concatenated(", ", (f"{value:.3g}" for value in seen.values[:4]))
        yield confirmed(
            self,
            (),
            say(_SAID[seen.kind], name=seen.name, looks=seen.looks, values=values),
            evidence=(*spots(patient, *places), run.measured("looks_apart", seen.weights)),
            severity=Severity.ERROR if seen.record.get("ddp") or seen.kind == "begun" else Severity.WARNING,
            cost=Cost(breaks=say("the ranks do not train one model")),
            detail=RanksApartDetail(kind=seen.kind),
        )
