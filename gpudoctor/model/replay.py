"""What the replay of a step with NaN or infinite values showed: the operation, its line, the class of cause."""

from dataclasses import dataclass, field
from enum import Enum

from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import SourceSpan


class Cause(Enum):
    """Why a value was not finite."""

    BAD_INPUT = "bad-input"
    """The batch, or other data of the program's, held NaN or infinite values."""
    HALF_OVERFLOW = "half-overflow"
    """A value beyond the range of float16, finite with more digits."""
    OVERFLOW = "overflow"
    """A value beyond the range of float32 (bfloat16), finite with more digits."""
    DOMAIN = "domain"
    """An operation at the edge of what it is defined for, with more digits too: log of 0, 0/0."""
    ROUNDING = "rounding"
    """The same, but only because a number was rounded to 0 or 1: finite with more digits."""
    EMPTY = "empty"
    """A mean over nothing, a spread of one value, a softmax of a row that is masked throughout."""
    EXPLODING = "exploding"
    """Weights, gradients or loss had grown from step to step: the rate."""
    POISONED = "poisoned-weights"
    """Weights that were not finite before any step."""
    OPTIMIZER = "optimizer"
    """The optimizer's own arithmetic, from finite gradients."""
    CONSTANT = "constant"
    """A NaN that the program itself writes down."""
    PEER = "peer"
    """It came from another rank, of which nothing was seen."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One bad step, run again under a look at every operation."""

    code: str
    """Of the finding that it explains."""
    step: int
    """That step, from 0."""
    reproduced: bool
    """Whether it was bad again."""
    reason: str = ""
    """Why not, or why nothing is known: one clause."""
    cause: Cause | None = None
    words: str = ""
    """What happened, one or two sentences."""
    operation: str = ""
    """As users know it: `log`, `a division`; empty for data and weights."""
    operator: str = ""
    """Torch's own name: `aten.log.default`."""
    phase: str = ""
    """`forward`, `backward`, `optimizer`, `loader`; empty where not known."""
    began: int | None = None
    """The step in which it began, where that is another one."""
    rank: int = 0
    value: str = ""
    """`nan`, `inf`, `-inf`."""
    dtype: str = ""
    module: str = ""
    """Its name in the model, or the class of the outermost one; empty outside of all."""
    module_class: str = ""
    place: SourceSpan | None = None
    """The user's line."""
    site: SourceSpan | None = None
    """The line of a library that the user's line led to."""
    turned: SourceSpan | None = None
    """The line where an infinity became NaN."""
    items: tuple[int, ...] = field(default=())
    """Items of the data set that held it."""
    names: tuple[str, ...] = field(default=())
    """Parameters whose gradients, or weights, were bad."""
    precision: str = ""
    """`float32` or `float64`: with so many digits the step was made again; empty where it was not."""
    finite: bool | None = None
    """Whether loss and gradients were finite then."""
    eager: bool = False
    """Whether compiled code ran as written, so that its operations could be seen."""
    seconds: float = 0.0
    """Spent on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadStepDetail(Detail):
    """What a check with the trait `FIRST_BAD_STEP` knows of the step, and what its replay added."""

    step: int
    """The first step with wrong numbers."""
    suspected: str
    """What the recording alone suggests: `rate`, `range` (of float16) or `operation` (at an edge)."""
    replay: Replay | None = None
    """The replay that showed the values again; None where there is none."""

    @property
    def cause(self) -> str:
        """The class of cause: the replay's, else the suspected one."""
        shown = self.replay.cause if self.replay is not None else None
        return self.suspected if shown is None else shown.value

    @property
    def operation(self) -> str:
        """The operation that the replay named; "" for none."""
        return self.replay.operation if self.replay is not None else ""

    @property
    def place(self) -> SourceSpan | None:
        """The user's line that the replay named."""
        return self.replay.place if self.replay is not None else None
