"""TRAIN004: an evaluation that says too much: training samples in it, positions without a label."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gpudoctor.analysis.run.curves import of_first_rank
from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_SHARE = 0.02
"""Common samples of those looked at that are too many: public sets have up to 3 % near duplicates, fewer exact ones."""
_TIMES = 3
"""Common samples, for each that is to be expected of a training that repeats itself."""
_EPOCHS, _EVENLY, _SHOWN = 3, 0.1, 5
"""Epochs in which a metric grew; by what part of the most it may differ; numbers that are shown."""


class EvaluationOverlap(Check):
    """The evaluation contains what the model was trained on, or counts what has no label.

    What it finds:
        In a recording:
        - samples of the evaluation that are also in the training
        - a metric of torchmetrics that is never reset
        - a share of right labels, of transformers' `compute_metrics`, that is one of all positions
    Why it hurts:
        The number is not that of the model, and decides on checkpoints and settings.
    How it knows:
        From a recording: hashes of the samples that both loaders gave, without their padding. A logged number
        that equals a share of all positions, and not of those with a label. The updates that metrics have counted.
    False alarms:
        An evaluation on training samples beside one on others is on purpose, and not reported. Samples of few
        numbers are equal by chance; they are not compared. Augmented samples are never equal, so none are found.
    Remedies:
        Split the samples once, by a fixed seed, before anything else. Reset metrics. Leave labels of -100 out of
        them.
    References:
        - https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """

    code = Code("TRAIN004")
    name = "evaluation-overlap"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "evaluation"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for name, updates in _unreset(of_first_rank(patient.recording, "metric")).items():
            message = say(
                "{name} was never reset: it had counted {updates} updates when its epochs began. Its value is that of "
                "all epochs so far.",
                name=name,
                updates=concatenated(", ", map(str, updates)),
            )
            yield data.shown(self, patient, "metric", message, len(updates), data.EVALUATION)
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
        if common > 1 and common >= _SHARE * rows and common > _TIMES * seen.chance:
            message = say("{common} of {rows} evaluation samples seen are also in training.", common=common, rows=rows)
            yield data.shown(self, patient, "samples", message, common / rows, data.EVALUATION)


def _unreset(metrics: Sequence[Record]) -> Mapping[str, Sequence[int]]:
    """By class, the updates of metrics that grew by as many in each epoch."""
    found = {}
    for item in metrics:
        updates = [int(count) for count in item.get("updates") or ()]
        grown = [later - before for before, later in pairwise(updates)]
        if len(grown) >= _EPOCHS and min(grown) > 0 and max(grown) - min(grown) <= _EVENLY * max(grown):
            found[str(item.get("model"))] = updates[:_SHOWN]
    return found
