"""A finding: one ailment, on one patient, with its evidence and its price."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NewType, TypeVar

from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Evidence, SourceSpan
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.trait import Trait

Code = NewType("Code", str)
"""A topic and a number, e.g. `DATA001`; append-only and never reused."""
D = TypeVar("D", bound=Detail)


class Resource(Enum):
    """What a remedy may use up and a finding may declare scarce; ranking keeps the two apart."""

    DEVICE_MEMORY = "device memory"
    HOST_MEMORY = "host memory"
    SHARED_MEMORY = "shared memory"
    CPU = "CPU cores"
    DISK = "disk space"


class Whose(Enum):
    """Whose time a share of step time is: what bounds what a cure gives back."""

    HOST = "host"
    """A wait or work of the host: worth no more than the device is idle."""
    DEVICE = "device"
    """The device works or waits in it, too: a cure takes work from it."""
    STEPS = "steps"
    """Whole steps, or the time outside of them: known without a look at the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a finding costs; None is "not known", never zero."""

    step_share: float | None = None
    """Share of step time that its cure gives back at most (0..1)."""
    host_share: float | None = None
    """Share of the host's time in a step (0..1), where it is not known what of it a cure gives back."""
    whose: Whose = Whose.HOST
    """Whose time it is."""
    bytes: int | None = None
    """Bytes lost or missing."""
    breaks: str | None = None
    """What it breaks, as a short clause, when the run dies or its result is wrong."""

    @property
    def share(self) -> float | None:
        """The share by which it is ordered among others; no claim of a gain."""
        return self.host_share if self.step_share is None else self.step_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One ailment found."""

    code: Code
    """The check's code."""
    name: str
    """The ailment's name, e.g. `loader-bound`."""
    severity: Severity
    """What happens to the job."""
    confidence: Confidence
    """How sure we are."""
    message: str
    """One or two sentences with the numbers that were compared; no trailing advice (that is a remedy)."""
    evidence: tuple[Evidence, ...]
    """What proves it; never empty."""
    cost: Cost = field(default_factory=Cost)
    """What it costs."""
    subject: str = ""
    """What it is about when a patient has several: "GPU 5", "train.py:41", a package name."""
    scarce: frozenset[Resource] = frozenset()
    """Resources that this finding says are short: remedies that use them are set aside by ranking."""
    effect_of: Code | None = None
    """Code of the ailment that this one is an effect of: where both are found, ranking puts the cause first."""
    detail: Detail | None = field(default=None, compare=False)
    """What the check hands to its rule; no part of a report or a tape, where the remedies are there already."""
    traits: frozenset[Trait] = frozenset()
    """What the ailment means to verdicts and trials: those of its check."""

    def __post_init__(self) -> None:
        """Refuse a finding without evidence: it would be an opinion."""
        if not self.evidence:
            raise ValueError(f"{self.code}: a finding needs evidence")

    @property
    def span(self) -> SourceSpan | None:
        """The first place in a source file among the evidence."""
        return next((item for item in self.evidence if isinstance(item, SourceSpan)), None)

    def detail_of(self, kind: type[D]) -> D:
        """The detail, of its check's class. Raises `TypeError` where there is none, or another one."""
        if not isinstance(self.detail, kind):
            raise TypeError(f"{self.code}: a {kind.__name__} is missing")
        return self.detail
