"""Answers NUM002: by the class of cause; a look at the batch of the bad step."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, BadStepDetail, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_rules.numerics import not_finite


class NanLossRule(Rule):
    """By the class of cause; a look at the batch of the bad step."""

    answers = Code("NUM002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        yield from not_finite.remedies(self.answers, finding, patient)
        if finding.detail_of(BadStepDetail).replay is not None:
            return
        yield Remedy(
            id="NUM002-batch",
            title="look at the batch of that step",
            steps=(
                "assert torch.isfinite(batch).all()   # before the forward pass: NaN data make a NaN loss",
                "a mean over no element (an empty batch, labels that are all ignored) is NaN as well",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
