"""The protocol of a rule: it answers the findings of one check with remedies."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from gpudoctor.model.finding import Code, Finding
from gpudoctor.model.patient import Patient
from gpudoctor.model.remedy import Remedy


class Rule(ABC):
    """Answers findings with remedies that name the number to set for this patient.

    `prescribe` may raise `Unavailable` when a sign it needs is missing: what it yielded before stands.
    """

    reads_logs: ClassVar[bool] = False
    """Whether it answers findings that were read in a log, too: their detail is a `LogDetail`."""
    answers: ClassVar[Code]
    """The code of the check that it answers."""

    @abstractmethod
    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        """Yield remedies, any order: ranking is the engine's."""
