"""TRAIN010: the ranks of a data-parallel job do not train one model, each on data of its own."""

from collections.abc import Iterator

from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity

_BY_LOSSES = 20
"""Steps with equal losses on all ranks, from which on another check says so."""

_APART = {
    "alone": template(
        "The gradients of {name} differ between the ranks in all {looks} looks. Each rank trains a model of its own."
    ),
    "begun": template(
        "The weights of {name} differ between the ranks in all {looks} looks, and the gradients do not. The ranks "
        "began with different weights."
    ),
}


class RanksMisfit(Check):
    """The ranks of a job do not train one model, each on data of its own.

    What it finds:
        In a recorded run of several ranks:
        - gradients that nothing shares, for instance where the inner module of DDP is called
        - weights that differ although the gradients are shared
        - samples that several ranks read in one epoch; a note if not each rank reads them all
        - data that is split twice, so that a part of it is never read
        - ranks with different numbers of batches
    Why it hurts:
        Each rank trains a model of its own, or all repeat the work of one. The rank with more batches waits for the
        others for ever.
    How it knows:
        Each rank hashes the rows of some batches. It asks its loader for the length and looks at the samplers.
        After its steps 1, 2, 4, 8 and so on it sums a small parameter and its gradient.
    False alarms:
        The data of models in DistributedDataParallel over all ranks alone is judged. Sharded models are not
        compared. Ranks that train models of their own on purpose are a warning if they join in a process group.
    Remedies:
        Split by rank at one place, and call the wrapped model.
    References:
        - https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
        - https://docs.pytorch.org/tutorials/advanced/generic_join.html
    """

    code = Code("TRAIN010")
    name = "ranks-misfit"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "ranks"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """At most one finding of each kind."""
        from gpudoctor.analysis.run.aligned_ranks import same_losses
        from gpudoctor.analysis.run.line_costs import place_of
        from gpudoctor.analysis.run.training.ranks import apart, by_data, read, split, uneven

        run = demanded(patient, 1).recording
        seen, rows, data = apart(run), read(run), split(run)
        if seen is not None and (seen.alone or seen.begun):
            how = "alone" if seen.alone else "begun"
            said = say(_APART[how], name=str(seen.record.get("name")), looks=seen.looks)
            places = map(place_of, [seen.record, *run.ranks[0].of("model")[:1]])
            breaks = say("the ranks do not train one model") if seen.record.get("ddp") else ""
            yield told(self, patient, how, said, seen.looks, *places, breaks=breaks)
        if not by_data(run):
            return
        loaders = [item for rank in run.ranks for item in rank.of("loader") if item.get("role") == "training"]
        at = next(map(place_of, loaders), None)
        if rows is not None and rows.unsplit and same_losses(run) < _BY_LOSSES:
            said = say(
                "Several ranks read {common} of {rows} samples of an epoch looked at: the data is not split by rank.",
                common=rows.common,
                rows=rows.rows,
            )
            kind = "same" if rows.same else "unsplit"
            # In an order of its own each rank still trains on all of the data in each epoch.
            level = None if rows.same or (data is not None and data.whole) else Severity.NOTE
            yield told(self, patient, kind, said, rows.common, at, severity=level)
        if data is not None and data.twice:
            said = say("The data is split by rank more than once, at last by {name}.", name=data.by)
            if data.read is not None:
                rows_read = say(" All ranks together read {read:,} of {size:,} rows.", read=data.read, size=data.size)
                said = concatenated("", [said, rows_read])
            yield told(self, patient, "twice", said, data.read or 0, at)
        if data is not None and uneven(run):
            each = concatenated(", ", map(str, data.each[:8]))
            said = say(
                "The ranks have {each} batches an epoch: the one with most waits for the others for ever.", each=each
            )
            yield told(self, patient, "uneven", said, len(set(data.each)), at, breaks=say("the job hangs"))
