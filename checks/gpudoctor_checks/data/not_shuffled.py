"""DATA013 not-shuffled."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, processes, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Severity, Threshold


class NotShuffled(Check):
    """A classifier trains on its samples in the order of the data set.

    What it finds:
        In a recording: a loader that reads its set in order. Its batches contain one class each, for several
        classes in turn.
    Why it hurts:
        In class order the model learns to answer with the current class, and forgets the earlier ones. Batch
        norm sees one class at a time.
    How it knows:
        From a recording: the loader's sampler, and the labels of the loss, which are those of the loader's
        batch.
    False alarms:
        A set whose samples of one class stand together by chance. A training that goes from class to class on
        purpose.
    Remedies:
        `shuffle=True` for the training loader.
    References:
        - https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
        - https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html
    """

    code = "DATA013"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "losses",
            24,
            "{steps}",
            "convention: as many graphs of losses as LOOP006 examines",
            "Fewer examined batches are not judged.",
        ),
        Threshold(
            "one_class_share",
            0.8,
            "1",
            "a set in class order mixes classes only where one begins, within a batch",
            "If at least this share of batches has one class, the set is in class order.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 1)
        seen = [item for item in map(_labels, processes(patient)) if item is not None]
        seen = [item for item in seen if int(item[0].get("losses") or 0) >= self.limit("losses")]
        for record, loader in seen:
            by_class = [int(often) for label, often in record.get("labels") or () if label >= 0]
            full = [often for often in by_class if often > 2]  # by chance a rare class never fills a batch
            losses, single = int(record.get("losses") or 0), int(record.get("found") or 0)
            if len(full) < 2 or single < self.limit("one_class_share") * losses:
                continue
            where = [of_run.place_of(item) for item in (loader, record)]
            yield confirmed(
                self,
                (),
                say(
                    "Each of {single} batches held one class, of {losses} examined: the loader reads the samples in "
                    "order, class by class.",
                    single=single,
                    losses=losses,
                ),
                evidence=(*spots(patient, *where), run.measured("batches_of_one_class", single, "{steps}")),
                severity=Severity.WARNING,
                cost=Cost(breaks=say("the model learns the current class and forgets the earlier ones")),
            )
            return


def _labels(process: "of_run.Process") -> "tuple[of_run.Record, of_run.Record] | None":
    """What was seen of the labels of a loader that goes through its set in order, and that loader."""
    for record in of_run.numerics(process, "labels")[-1:]:
        for loader in process.of("loader")[::-1]:
            if loader.get("id") == record.get("loader"):
                return (record, loader) if loader.get("order") == "sequential" else None
    return None
