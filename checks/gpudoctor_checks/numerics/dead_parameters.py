"""NUM005 dead-parameters."""

from collections.abc import Iterator

from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.recordings.curves import names, numerics
from gpudoctor.model.reading.recordings.judged import demanded, measured, percent, spot
from gpudoctor.model.reading.recordings.operations import cutting_lines


class DeadParameters(Check):
    """Trainable parameters never get a gradient.

    What it finds:
        Parameters that require gradients and had none, or zeros only, in every step that was looked at over 20
        steps or more.
    Why it hurts:
        They stay as they were made. A branch that was cut off by a detach, an argmax or a forgotten call looks
        like a trained model and is not; Adam still keeps 8 bytes of state for each of their elements.
    How it knows:
        From a recording: the probe looks at which gradients are None or all zero, at a cadence and at the end.
        Where the source is there, the line that cuts the graph is looked for in the modules that use them.
    False alarms:
        Experts that are seldom chosen, embeddings of rare words and parts that train in turn have gradients now
        and then and are silent; below a fifth of the elements it is a note.
    Remedies:
        Take the detach away, use the branch, or freeze it and leave it out of the optimizer.
    References:
        - https://pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """

    code = Code("NUM005")
    name = "dead-parameters"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="steps",
            default=20,
            unit="{steps}",
            source="CATALOGUE: a dead parameter is 20 steps",
            meaning="Fewer steps looked at say nothing.",
        ),
        Threshold(
            name="share_error",
            default=0.2,
            unit="1",
            source="CATALOGUE NUM005",
            meaning="From this share of the trainable elements on it is an error.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, self.limit("steps"))
        readings = [item for item in numerics(run.lead.process, "dead") if item.get("steps")]
        last = readings[-1] if readings else None
        if last is None or int(last.get("steps")) < self.limit("steps") or not last.get("parameters"):
            return
        share = float(last.get("share") or 0.0)
        much = share >= self.limit("share_error")
        dead = [str(name) for name in last.get("parameters")]
        spans = [spot(patient, place) for place in cutting_lines(patient, dead)]
        none = set(map(str, last.get("none") or ()))
        how = "got no gradient at all" if none >= set(dead) else "got no gradient but zeros"
        yield self.finding(
            f"{names(last)} {how} in {int(last.get('steps'))} steps: {percent(share)} of the trainable "
            "elements.",
            evidence=(*spans, measured("dead_share", share, "1", run.recording)),
            confidence=Confidence.CONFIRMED,
            severity=Severity.ERROR if much else Severity.NOTE,
            cost=Cost(breaks="a part of the model is not trained" if much else None),
            subject=dead[0],
            facts=(("parameter", dead[0]),),
        )
