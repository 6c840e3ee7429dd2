"""A finding: one ailment, on one patient, with its evidence, its severity and its price."""

from collections.abc import Mapping
from enum import Enum
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar, cast

from gpudoctor.lang import say
from gpudoctor.model.evidence import Evidence, Setting, SourceSpan
from gpudoctor.model.records import field, fields, frozen, replace

# How bad a finding is for the job, and how sure we are of it.


class Severity(Enum):
    """What happens to the job; the words are SARIF's."""

    NOTE = "note"
    """Worth knowing; nothing is lost by leaving it."""
    WARNING = "warning"
    """The job loses time or memory worth acting on."""
    ERROR = "error"
    """The run will fail, has failed, or its result is wrong."""

    @property
    def rank(self) -> int:
        """0 for a note, 1 for a warning, 2 for an error."""
        return list(Severity).index(self)


class Confidence(Enum):
    """How sure a finding is; it follows from the kind of its evidence."""

    SUSPECTED = "suspected"
    """Read from source or from a config."""
    PROBABLE = "probable"
    """An indirect sign."""
    CONFIRMED = "confirmed"
    """Measured, or read from the thing itself."""

    @property
    def weight(self) -> float:
        """The factor by which ranking discounts an expected gain (0..1).

        A convention, not a measured probability: it only has to order a measured gain of a few percent
        above a suspected one of the same size.
        """
        return {"suspected": 0.4, "probable": 0.7, "confirmed": 1.0}[self.value]


# What an ailment means to verdicts and trials beyond its topic.


class Trait(Enum):
    """A property of an ailment that a check declares, so that no other part has to know its code."""

    STANDSTILL = "standstill"
    """The run makes no more steps: that is its verdict."""
    UNEXPLAINED = "unexplained"
    """It adds up the time that no other finding explains."""
    INSIDE_PASSES = "inside passes"
    """Its time may be part of the forward and backward passes."""
    IN_EVALUATION = "in evaluation"
    """Its time is part of that of the evaluations."""
    FIRST_BAD_STEP = "first bad step"
    """Its detail is a `BadStepDetail`: `verify` replays that step."""
    DEVICE_MEMORY_GROWS = "device memory grows"
    """The allocated memory of the device grows with each step: `verify` searches what holds it, and completes
    the `LeakDetail`."""
    HOST_MEMORY_GROWS = "host memory grows"
    """The memory of the host grows with each step. With the device's, the device's counts where it was read."""


GROWTH = frozenset({Trait.DEVICE_MEMORY_GROWS, Trait.HOST_MEMORY_GROWS})
"""Traits of a leak."""


# What a check hands to its rule beside the evidence.


class Detail:
    """Base of a check's detail: `Facts`, or where a rule computes with several fields a frozen dataclass with slots in
    the check's module, whose name ends in `Detail`.

    It is the one thing that a rule imports from a check. It is not part of a report. None in a field means that
    nobody looked: what the source knows of it stays when a run confirms a suspicion (`over`).
    """

    __slots__ = ()

    def over(self, other: "Detail | None") -> "Detail":
        """This detail, with the other's values where it has None; an other kind of detail is left out."""
        if other is None or type(other) is not type(self):
            return self
        known = {item.name: getattr(self, item.name) for item in fields(cast("Any", self))}
        merged: Detail = replace(cast("Any", other), **{name: known[name] for name in known if known[name] is not None})
        return merged

    def placeholders(self) -> Mapping[str, object]:
        """The values that a row of advice may name in braces: the fields."""
        return {item.name: getattr(self, item.name) for item in fields(cast("Any", self))}


class Facts(SimpleNamespace, Detail):
    """A detail of a few values by name, most of which only rows of advice read: `Facts(kind="swap")`."""

    def over(self, other: Detail | None) -> Detail:
        """As `Detail.over`."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return type(self)(**vars(other) | known) if type(other) is type(self) else self

    def placeholders(self) -> Mapping[str, object]:
        """All of them."""
        return vars(self)


Code: TypeAlias = str
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


@frozen
class Cost:
    """What a finding costs; None is "not known", never zero."""

    step_share: float | None = None
    """Share of step time that its cure gives back at most (0..1)."""
    host_share: float | None = None
    """Share of the host's time in a step (0..1), where it is not known what of it a cure gives back."""
    whose: Whose = Whose.HOST
    bytes: int | None = None
    breaks: str | None = None
    """What it breaks, as a short clause, when the run dies or its result is wrong."""

    @property
    def share(self) -> float | None:
        """The share by which it is ordered among others; no claim of a gain."""
        return self.host_share if self.step_share is None else self.step_share


@frozen
class Finding:
    """One ailment found."""

    code: Code
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    """One or two sentences with the numbers that were compared; no trailing advice (that is a remedy)."""
    evidence: tuple[Evidence, ...]
    """What proves it; never empty."""
    cost: Cost = field(default_factory=Cost)
    subject: str = ""
    """What it is about when a patient has several: "GPU 5", "train.py:41", a package name."""
    scarce: frozenset[Resource] = frozenset()
    """Resources that this finding says are short: remedies that use them are set aside by ranking."""
    effect_of: Code | None = None
    """Code of what this one belongs to, its cause or the loss that it explains: ranking puts that first."""
    detail: Detail | None = field(default=None, compare=False)
    """What the check hands to its rule; no part of a report or a tape, where the remedies are there already."""
    traits: frozenset[Trait] = frozenset()
    """What the ailment means to verdicts and trials: those of its check."""

    def __post_init__(self) -> None:
        """Refuse a finding without evidence: it would be an opinion."""
        if not self.evidence:
            raise ValueError(say("{code}: a finding needs evidence", code=self.code))

    @property
    def span(self) -> SourceSpan | None:
        """The first place in a source file among the evidence."""
        return next((item for item in self.evidence if isinstance(item, SourceSpan)), None)

    @property
    def place(self) -> SourceSpan | Setting | None:
        """The first evidence that stands in a file."""
        return next((item for item in self.evidence if isinstance(item, SourceSpan | Setting) and item.path), None)

    def detail_of(self, kind: type[D]) -> D:
        """The detail, of its check's class. Raises `TypeError` where there is none, or another one."""
        if not isinstance(self.detail, kind):
            raise TypeError(say("{code}: a {kind} is missing", code=self.code, kind=kind.__name__))
        return self.detail
