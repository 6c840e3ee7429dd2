"""TRAIN004: an evaluation that says too much: training samples in it."""

from collections.abc import Iterator

from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable


class EvaluationOverlap(Check):
    """The evaluation contains what the model was trained on.

    What it finds:
        In a recording: samples of the evaluation that are also in the training.
    Why it hurts:
        The number looks better than the model is, and decides on checkpoints and settings.
    How it knows:
        From a recording: hashes of the samples that both loaders gave, without their padding.
    False alarms:
        An evaluation on training samples beside one on others is on purpose, and not reported. Samples of few
        numbers are equal by chance; they are not compared. Augmented samples are never equal, so none are found.
    Remedies:
        Split the samples once, by a fixed seed, before anything else.
    References:
        - https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """

    code = Code("TRAIN004")
    name = "evaluation-overlap"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "evaluation"
    thresholds = (
        Threshold(
            name="share",
            default=0.02,
            unit="1",
            source="convention: public sets have up to 3 % near duplicates, fewer exact ones",
            meaning="Fewer common samples, of those looked at, are not reported.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        common, evaluated = data.overlap(patient.recording)
        if data.EVALUATION not in data.looks(patient.recording):
            raise Unavailable(say("no evaluation was seen in the recording"))
        again, of = data.repeated(patient.recording)
        # A training set of few different samples repeats itself: chance, and nothing to split.
        if common > 1 and common >= self.limit("share") * evaluated and again <= 0.1 * of:
            message = say(
                "{common} of {rows} evaluation samples looked at are also in training.", common=common, rows=evaluated
            )
            yield data.shown(self, patient, "samples", message, common / evaluated, role=data.EVALUATION)
