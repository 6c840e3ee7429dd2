"""Answers NUM001: by the class of cause; a replay of the bad step."""

from collections.abc import Iterator

from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_rules.numerics import not_finite


class NanGradientsRule(Rule):
    """By the class of cause; a replay of the bad step."""

    answers = Code("NUM001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        yield from not_finite.remedies(self.answers, finding, patient)
