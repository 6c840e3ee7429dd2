"""Answers MEM007: the next micro batch."""

from collections.abc import Iterator

from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_rules.memory.greater_batch import greater_batch


class HeadroomUnusedRule(Rule):
    """The micro batch that fits, from the estimate."""

    answers = Code("MEM007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        yield from greater_batch(finding, patient)
