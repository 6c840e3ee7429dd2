"""TRAIN010: the ranks of a data-parallel job do not train one model, each on data of its own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen

if TYPE_CHECKING:
    from gpudoctor.model.signs.recording import Record, Recording

_BY_LOSSES = 20
"""Steps with equal losses on all ranks, from which on another check says so."""


@frozen
class RanksMisfitDetail(Detail):
    """What the rule reads."""

    kind: str
    """`alone`, `same`, `twice`, `uneven`."""


class RanksMisfit(Check):
    """The ranks of a job do not train one model, each on data of its own.

    What it finds:
        In a recorded run of several ranks:
        - gradients that nothing shares, for instance where the inner module of DDP is called
        - the same samples on each rank
        - data that is split twice, so that a part of it is never read
        - ranks with different numbers of batches
    Why it hurts:
        Ranks that share no gradient train a model each, and the file has one of them. Ranks with the same samples
        repeat the work of one. The rank with more batches waits for the others for ever.
    How it knows:
        Each rank hashes the rows of some batches. It asks its loader for the length and looks at the samplers.
        After its steps 1, 2, 4, 8 and so on it sums a few small parameters and their gradients.
    False alarms:
        The data of models in DistributedDataParallel over all ranks alone is judged. Sharded models are not
        compared. Ranks that train models of their own on purpose are a warning if they join in a process group.
    Remedies:
        Split by rank at one place, and call the wrapped model.
    References:
        - https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        - https://docs.pytorch.org/tutorials/advanced/generic_join.html
    """

    code = Code("TRAIN010")
    name = "ranks-misfit"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "ranks"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """At most one finding of each kind."""
        from gpudoctor.analysis.run.line_costs import place_of

        run = demanded(patient, 1)
        ranks = run.recording.ranks
        loaders = [item for rank in ranks for item in rank.of("loader") if item.get("role") == "training"]
        for kind, said, value, breaks, made in _found(run.recording):
            yield confirmed(
                self,
                (),
                said,
                evidence=(*spots(patient, *map(place_of, made or loaders[:1])), run.measured(f"ranks_{kind}", value)),
                severity=Severity.ERROR if breaks else Severity.WARNING,
                cost=Cost(breaks=breaks or None),
                subject=kind,
                detail=RanksMisfitDetail(kind=kind),
            )


def _found(recording: "Recording") -> Iterator[tuple[str, str, float, str, "list[Record]"]]:
    """Kind, message, number, what it breaks, and its places where these are no loaders."""
    from gpudoctor.analysis.run.aligned_ranks import same_losses
    from gpudoctor.analysis.run.training.ranks import apart, by_data, same_rows, split, uneven

    seen, same, data, count = apart(recording), same_rows(recording), split(recording), len(recording.ranks)
    if seen is not None and seen.alone:
        values = concatenated(", ", (f"{value:.3g}" for value in seen.values[:4]))
        said = say(
            "The gradients of {name} differ between the ranks in all {looks} looks: {values}. Each rank trains a "
            "model of its own.",
            name=str(seen.record.get("name")),
            looks=seen.looks,
            values=values,
        )
        breaks = say("the ranks do not train one model") if seen.record.get("ddp") else ""
        yield "alone", said, seen.looks, breaks, [seen.record, *recording.ranks[0].of("model")[:1]]
    if not by_data(recording):
        return
    if same and same_losses(recording) < _BY_LOSSES:
        said = say("All {ranks} ranks read the same samples in {same} of the batches compared.", ranks=count, same=same)
        yield "same", said, same, "", []
    if data is not None and data.twice:
        said = say(
            "The data is split by rank more than once, at last by {name}. All ranks together read {read:,} of "
            "{size:,} rows.",
            name=data.parts[0][0],
            read=data.read or 0,
            size=data.size or 0,
        )
        yield "twice", said, data.read or 0, "", []
    if data is not None and uneven(recording):
        said = say(
            "The ranks have {each} batches an epoch: the one with most waits for the others for ever.",
            each=concatenated(", ", map(str, data.each[:8])),
        )
        yield "uneven", said, len(set(data.each)), say("the job hangs"), []
