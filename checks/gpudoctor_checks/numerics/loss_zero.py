"""NUM012 loss-zero."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.text import percent


class LossZero(Check):
    """The loss is exactly zero in many steps.

    What it finds:
        A run in which a fifth of the steps or more have a loss of exactly 0.0 and no gradient.
    Why it hurts:
        A loss of exactly zero has no gradient: the step costs its full time and teaches nothing. The usual
        causes:
        - all labels are masked (-100)
        - the pairs of a margin or triplet loss are too easy
        - a mask multiplies the whole loss by zero
    How it knows:
        From a recording: the loss of each step, the gradient norms that clipping measures, and those that the
        probe reads. If no norm was read in these steps, the finding is probable, not confirmed.
    False alarms:
        Some losses are zero and still have a gradient. Examples: GRPO and PPO on their first pass over a batch,
        or a difference of two equal terms. The check is silent if a gradient norm in such a step is above zero.
        A small loss is never zero in float32 before the model is certain of each sample. A hinge loss whose
        samples are learned one by one becomes zero late: this is a note.
    Remedies:
        Count the labels that are not masked in one batch. Mine harder pairs, or raise the margin. Stop the
        training if the model knows the data by heart.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    code = "NUM012"
    silent_on_synthetic = "its data is random"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "share",
            0.2,
            "1",
            "convention: NUM005's share of the elements for an error, here of the steps",
            "This share of steps with a loss of exactly zero is a finding.",
        ),
        Threshold(
            "steps",
            30,
            "{steps}",
            "the least number of steps by which shares are judged",
            "Fewer steps with a known loss are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        losses = of_run.loss_curve(process)
        zero = [step for step, loss in zip(losses.steps, losses.values, strict=True) if loss == 0.0]
        share = len(zero) / len(losses) if len(losses) else 0.0
        if len(losses) < self.limit("steps") or share < self.limit("share"):
            return
        without_loss = set(zero)
        norms = [norm for step, norm in _norms(process) if step in without_loss]
        if any(norm > 0.0 for norm in norms):
            return
        first = losses.values[: len(losses) // 4]
        from_start = first.count(0.0) >= self.limit("share") * len(first)
        yield self.finding(
            say(
                "The loss is exactly zero in {share} of the steps, first in step {step:,}. These steps change nothing.",
                share=percent(share),
                step=zero[0],
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, process.of("loop")[:1])),
                run.measured("steps_with_zero_loss", len(zero), "{steps}"),
                run.measured("steps_with_known_loss", len(losses), "{steps}"),
            ),
            severity=Severity.WARNING if from_start else Severity.NOTE,
            confidence=Confidence.CONFIRMED if norms else Confidence.PROBABLE,
            breaks="the model does not learn in these steps" if from_start else None,
            effect_of="TRAIN012",  # rewards that are all equal leave no loss
        )


def _norms(process: "of_run.Process") -> Iterator[tuple[int, float]]:
    """The gradient norms that clipping and the probe read, with their steps."""
    read = of_run.norm_curve(process)
    yield from zip(read.steps, read.values, strict=True)
    for reading in of_run.numerics(process, "norms"):
        norm = reading.get("norm")
        if isinstance(norm, int | float):
            yield int(reading.get("step") or 0), float(norm)
