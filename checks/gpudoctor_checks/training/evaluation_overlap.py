"""TRAIN004: an evaluation that says too much: training samples in it, positions without a label."""

from collections.abc import Iterator

from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_SHARE = 0.02
"""Common samples of those looked at that are too many: public sets have up to 3 % near duplicates, fewer exact ones."""
_REPEATED = 0.1
"""Samples of a training's epoch that come again, from which on it is a set of few different samples."""


class EvaluationOverlap(Check):
    """The evaluation contains what the model was trained on, or counts what has no label.

    What it finds:
        In a recording:
        - samples of the evaluation that are also in the training
        - a share of right labels, of transformers' `compute_metrics`, that is one of all positions
    Why it hurts:
        The number looks better than the model is, and decides on checkpoints and settings.
    How it knows:
        From a recording: hashes of the samples that both loaders gave, without their padding. A logged number
        that equals a share of all positions, and not of those with a label.
    False alarms:
        An evaluation on training samples beside one on others is on purpose, and not reported. Samples of few
        numbers are equal by chance; they are not compared. Augmented samples are never equal, so none are found.
    Remedies:
        Split the samples once, by a fixed seed, before anything else. Leave labels of -100 out of the metric.
    References:
        - https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """

    code = Code("TRAIN004")
    name = "evaluation-overlap"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "evaluation"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if data.EVALUATION not in data.looks(patient.recording):
            raise Unavailable(say("no evaluation was seen in the recording"))
        for name, value, real in data.padded(patient.recording):
            message = say(
                "{name} of {value} counts positions without a label as well; of those with one {real} are right.",
                name=name,
                value=percent(value),
                real=percent(real),
            )
            breaks, severity = say("the metric is wrong"), Severity.WARNING
            yield data.shown(self, patient, "padding", message, value, data.EVALUATION, breaks, severity)
        seen = data.overlap(patient.recording)
        common, rows = seen.common, seen.looked_at
        # A training set of few different samples repeats itself: chance, and nothing to split.
        repeats = seen.again > _REPEATED * seen.epoch
        if common > 1 and common >= _SHARE * rows and not repeats:
            message = say("{common} of {rows} evaluation samples seen are also in training.", common=common, rows=rows)
            yield data.shown(self, patient, "samples", message, common / rows, data.EVALUATION)
