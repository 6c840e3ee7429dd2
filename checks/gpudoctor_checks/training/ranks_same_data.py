"""TRAIN010: the ranks of a data-parallel job read the same samples, too few of them, or not equally many."""

from collections.abc import Iterator

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.records import frozen

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
        In a recorded run of several ranks:
        - the same samples on each rank
        - data that is split twice, so that a part of it is never read
        - ranks with different numbers of batches
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
        from gpudoctor.analysis.run.aligned_ranks import same_losses
        from gpudoctor.analysis.run.line_costs import place_of
        from gpudoctor.analysis.run.training.ranks import by_data, same_rows, split, uneven

        run = demanded(patient, 1)
        recording, data = run.recording, split(run.recording)
        if not by_data(recording):
            return
        ranks = len(recording.ranks)
        made = next((item for item in recording.ranks[0].of("loader") if item.get("role") == "training"), None)
        spans = spots(patient, place_of(made) if made is not None else None)

        def found(kind: str, said: str, name: str, value: float, breaks: str) -> Finding:
            level = Severity.ERROR if kind == "uneven" else Severity.WARNING
            evidence: list[Evidence] = [*spans, run.measured(name, value)]
            return confirmed(
                self,
                (),
                said,
                evidence=evidence,
                severity=level,
                cost=Cost(breaks=breaks),
                subject=kind,
                detail=RanksSameDataDetail(kind=kind),
            )

        same = same_rows(recording)
        if same and same_losses(recording) < _BY_LOSSES:
            said = say(
                "All {ranks} ranks read the same samples, in all {same} batches compared.", ranks=ranks, same=same
            )
            yield found("same", said, "same_batches", same, say("{ranks} ranks repeat the work of one", ranks=ranks))
        if data is not None and data.twice:
            names = concatenated(" and ", dict.fromkeys(name for name, _ in data.parts))
            if data.apart:
                said = say(
                    "Each rank has its own data set; {names} splits it again: a rank reads 1 of {parts} parts.",
                    names=names,
                    parts=data.parts[0][1],
                )
            else:
                said = say(
                    "{names} split the data by rank: all ranks together read {read:,} of {size:,} rows.",
                    names=names,
                    read=data.read,
                    size=data.size,
                )
            yield found("twice", said, "rows_read", data.read or 0, say("a part of the data is never read"))
        if data is not None and uneven(recording):
            each = concatenated(", ", (str(number) for number in data.each[:8]))
            said = say(
                "The ranks have {each} batches an epoch: the one with most waits for the others for ever.", each=each
            )
            known = [number for number in data.each if number is not None]
            yield found("uneven", said, "batches_apart", max(known) - min(known), say("the job hangs"))
