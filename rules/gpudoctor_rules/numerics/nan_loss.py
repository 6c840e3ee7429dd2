"""Answers NUM002: by the class of cause."""

from collections.abc import Iterator

from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_rules.numerics import not_finite


class NanLossRule(Rule):
    """By the class of cause."""

    answers = Code("NUM002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        yield from not_finite.remedies(self.answers, finding, patient)
