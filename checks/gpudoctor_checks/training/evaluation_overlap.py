"""TRAIN004: an evaluation that says too much: training samples in it, padding in its loss."""

from collections.abc import Iterator

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent


@frozen
class EvaluationOverlapDetail(Detail):
    """What the rule reads."""

    how: str
    """One of `samples`, `padding`."""


class EvaluationOverlap(Check):
    """The evaluation contains what the model was trained on, or counts padding.

    What it finds:
        In a recording:
        - samples of the evaluation that are also in the training
        - an evaluation loss whose labels are padding in part
    Why it hurts:
        The number looks better than the model is, and decides on checkpoints and settings.
    How it knows:
        From a recording: hashes of the samples that both loaders gave, without their padding. The labels of the
        model's call where its mask is 0.
    False alarms:
        An evaluation on training samples beside one on others is on purpose, and not reported. Samples of few
        numbers are equal by chance; they are not compared. Augmented samples are never equal, so none are found.
    Remedies:
        Split the samples once, by a fixed seed, before anything else. Set labels of padding to -100.
    References:
        - https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """

    code = Code("TRAIN004")
    name = "evaluation-overlap"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="share",
            default=0.02,
            unit="1",
            source="convention: public sets have up to 3 % near duplicates, fewer exact ones",
            meaning="Fewer common samples, of those looked at, are not reported.",
        ),
        Threshold(
            name="width",
            default=8,
            unit="1",
            source="convention: samples of fewer numbers are equal by chance",
            meaning="Samples of fewer numbers are not compared.",
        ),
        Threshold(
            name="padding_share",
            default=0.05,
            unit="1",
            source="convention",
            meaning="Less padding among the labels of the evaluation is not reported.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recording
        seen, calls = (
            data.overlap(recording),
            [
                item
                for item in data.calls(recording)["ids"]
                if not item.get("training") and item.get("labels_at_padding") is not None
            ],
        )
        if not seen.evaluated and not calls:
            raise Unavailable(say("no evaluation was seen in the recording"))
        # A training set of few different samples repeats itself: chance, and nothing to split.
        varied = seen.repeated <= 0.1 * seen.rows
        enough = seen.common > 1 and seen.common >= self.limit("share") * seen.evaluated
        if enough and varied and seen.width >= self.limit("width"):
            message = say(
                "{common} of {evaluated} evaluation samples looked at are also among {trained} training samples.",
                common=seen.common,
                evaluated=seen.evaluated,
                trained=seen.trained,
            )
            yield self._found(patient, "samples", message, seen.common / seen.evaluated)
        labels, pads = (sum(int(item.get(name) or 0) for item in calls) for name in ("labels", "labels_at_padding"))
        if labels and pads >= self.limit("padding_share") * labels:
            message = say(
                "{share} of the labels of the evaluation are at padding: its loss counts them.",
                share=percent(pads / labels),
            )
            yield self._found(patient, "padding", message, pads / labels)

    def _found(self, patient: Patient, how: str, message: str, value: float) -> Finding:
        shown = measured(f"evaluation_{how}", value, "1", patient.recording)
        return confirmed(
            self,
            (),
            message,
            evidence=(*data.made_at(patient, data.EVALUATION), shown),
            severity=Severity.WARNING,
            subject=how,
            detail=EvaluationOverlapDetail(how=how),
        )
