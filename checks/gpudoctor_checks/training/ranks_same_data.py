"""TRAIN010: the ranks of a data-parallel job read the same samples, too few of them, or not equally many."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen

if TYPE_CHECKING:
    from gpudoctor.model.signs.recording import Recording

_BY_LOSSES = 20
"""Steps with equal losses on all ranks, from which on another check says so."""


@frozen
class RanksSameDataDetail(Detail):
    """What the rule reads."""

    kind: str
    """`same`, `twice`, `uneven`."""


class RanksSameData(Check):
    """The data of a data-parallel job is not split as it should be.

    What it finds:
        In a recorded run of several ranks: the same samples on each rank, data that is split twice, so that a part
        of it is never read, and ranks with different numbers of batches.
    Why it hurts:
        Ranks with the same samples repeat the work of one. Data that is split twice leaves half of it, or more,
        unread. The rank with more batches waits for the others for ever.
    How it knows:
        The probe hashes the rows of some batches, at the same draws on each rank. It asks the loader of each rank
        for its length, and looks at the samplers in it.
    False alarms:
        Only models in DistributedDataParallel over all ranks are judged. Ranks of tensor and pipeline parallelism
        share their batches on purpose, and so do evaluations.
    Remedies:
        Split by rank at one place: the sampler, `accelerator.prepare`, the Trainer or the data set.
    References:
        - https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
        - https://huggingface.co/docs/datasets/use_with_pytorch#distributed
        - https://docs.pytorch.org/tutorials/advanced/generic_join.html
    """

    code = Code("TRAIN010")
    name = "ranks-same-data"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """At most one finding of each kind."""
        from gpudoctor.analysis.run.line_costs import place_of

        run = demanded(patient, 1)
        loaders = [item for rank in run.recording.ranks for item in rank.of("loader") if item.get("role") == "training"]
        for kind, said, value in _found(run.recording):
            hangs = kind == "uneven"
            yield confirmed(
                self,
                (),
                said,
                evidence=(*spots(patient, *map(place_of, loaders[:1])), run.measured(f"{kind}_batches", value)),
                severity=Severity.ERROR if hangs else Severity.WARNING,
                cost=Cost(breaks=say("the job hangs") if hangs else say("a part of the work is lost")),
                subject=kind,
                detail=RanksSameDataDetail(kind=kind),
            )


def _found(recording: "Recording") -> Iterator[tuple[str, str, float]]:
    """Kind, message and number."""
    from gpudoctor.analysis.run.aligned_ranks import same_losses
    from gpudoctor.analysis.run.training.ranks import by_data, same_rows, split, uneven

    same, data = same_rows(recording), split(recording)
    if not by_data(recording):
        return
    if same and same_losses(recording) < _BY_LOSSES:
        count = len(recording.ranks)
        said = say("All {ranks} ranks read the same samples, in all {same} batches compared.", ranks=count, same=same)
        yield "same", said, same
    if data is not None and data.twice:
        said = say(
            "The data is split by rank more than once, at last by {name}: all ranks together read {read:,} rows, of "
            "{size:,} in the data set of one.",
            name=data.parts[0][0],
            read=data.read or 0,
            size=data.size or 0,
        )
        yield "twice", said, data.read or 0
    if data is not None and uneven(recording):
        said = say(
            "The ranks have {each} batches an epoch: the one with most waits for the others for ever.",
            each=concatenated(", ", map(str, data.each[:8])),
        )
        yield "uneven", said, len(set(data.each))
