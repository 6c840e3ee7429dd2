"""How the examination of one check ended: four ways, always shown."""

from dataclasses import dataclass
from typing import TypeAlias

from gpudoctor.model.finding import Code, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The check looked and found nothing that is not silenced."""

    code: Code
    silenced: int = 0
    """Findings that the user silenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The check found the ailment, once or more often."""

    code: Code
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The check could not look: a sign is missing, or the user deselected it."""

    code: Code
    reason: str
    deselected: bool = False
    """True when it was not selected; such a skip is no gap in the examination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The check or a reader failed; a result like the others, and the rest goes on."""

    code: Code
    error: str


Outcome: TypeAlias = Passed | Found | Skipped | Crashed
