"""NUM011 constant-target."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Threshold


class ConstantTarget(Check):
    """All labels of a classifier's training are the same.

    What it finds:
        A cross-entropy over several classes. The labels come from the loader and were the same class in every
        examined batch.
    Why it hurts:
        The model learns to answer with that class for any input. The loss falls to zero and the accuracy on the
        same data is perfect. The usual causes: the wrong column is read, or a mapping gives every label one
        number. Or the data is in order and the run did not reach the second class.
    How it knows:
        From a recording: count, minimum, maximum and sum of the loss's labels match whole numbers in the
        loader's batch.
    False alarms:
        Labels that the program makes (zeros of a contrastive loss, real and fake of a GAN, domains) are not
        findings. They do not come from the loader. Nor are ignored positions, soft labels and regression. A set
        with fewer than one sample in a thousand of other classes gives the same result.
    Remedies:
        Count the labels of the whole set; check the code that makes them; shuffle.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    code = "NUM011"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "labels",
            1000,
            "{labels}",
            "convention: 1,000 draws miss a class with one sample in 200 with a probability of 0.7 %",
            "Fewer labels are not judged.",
        ),
        Threshold(
            "losses",
            30,
            "{steps}",
            "the least number of steps by which shares are judged",
            "Fewer examined batches are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        for process in recording.ranks:
            loaders = {item.get("id"): item for item in process.of("loader")}
            for record in of_run.numerics(process, "labels")[-1:]:
                labels, seen = record.get("labels") or [], int(record.get("elements") or 0)
                classes, losses = int(record.get("classes") or 0), int(record.get("losses") or 0)
                if len(labels) != 1 or labels[0][0] < 0 or classes < 2:
                    continue
                if seen < self.limit("labels") or losses < self.limit("losses"):
                    continue
                loader = loaders.get(record.get("loader"))
                ordered = loader is not None and loader.get("order") == "sequential"
                spans = spots(patient, *(of_run.place_of(item) for item in (loader, record) if item is not None))
                more = say(" The loader reads the samples in order: other labels may follow.") if ordered else ""
                yield self.finding(
                    say(
                        "All {labels:,} labels that were seen are {label}, in {batches} batches; "
                        "the loss has {classes} classes.{more}",
                        labels=seen,
                        label=labels[0][0],
                        batches=losses,
                        classes=classes,
                        more=more,
                    ),
                    evidence=(*spans, measured("labels_seen", seen, "{labels}", recording)),
                    breaks="the model learns one answer for every sample",
                    subject=f"{spans[0].path}:{spans[0].line}" if spans else "labels",
                )
                return
