"""What trials prove: pairs of bounded runs, the replay of a step with NaN."""

from enum import Enum

from gpudoctor.lang import say
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.finding import Detail
from gpudoctor.model.records import field, frozen


class LeakKind(Enum):
    """What grows."""

    WORKERS = "workers"
    PROFILER = "profiler"
    GRAPHS = "graphs"
    TENSORS = "tensors"
    CONTAINER = "container"
    OBJECTS = "objects"
    PREDICTIONS = "predictions"
    FILES = "files"


@frozen
class LeakDetail(Detail):
    """What a check with one of the traits `GROWTH` knows of the memory."""

    kind: LeakKind = LeakKind.OBJECTS
    target: str = ""
    """What retains it, as far as the check knows: `losses`."""


# What the replay of a step with NaN or infinite values showed: the operation, its line, the class of cause.


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
    EXPLODING = "exploding"
    """Weights, gradients or loss had grown from step to step: the rate."""
    POISONED = "poisoned-weights"
    """Weights that were not finite before any step."""
    OPTIMIZER = "optimizer"
    """The optimizer's own arithmetic, from finite gradients."""
    UNKNOWN = "unknown"


@frozen
class Replay:
    """One bad step, run again under a look at every operation."""

    code: str
    """Of the finding that it explains."""
    step: int
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
    rank: int = 0
    value: str = ""
    """`nan`, `inf`, `-inf`."""
    dtype: str = ""
    place: SourceSpan | None = None
    names: tuple[str, ...] = field(default=())
    """Parameters whose gradients, or weights, were bad."""
    seconds: float = 0.0


@frozen
class BadStepDetail(Detail):
    """What a check with the trait `FIRST_BAD_STEP` knows of the step, and what its replay added."""

    step: int
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


_ANYTHING = 10.0
"""Bounds of an interval that are so many times apart say nothing."""
TIME_RAN_OUT = say("the time ran out; give more with --budget")
"""Why a change that could be tried was not."""


class Conclusion(Enum):
    """How the trial of one change ended."""

    PROVEN = "proven"
    """Faster by more than the smallest effect, and what is learned is the same."""
    CURED = "cured"
    """The ailment is not found any more with it: what it is for, if that is not speed."""
    UNCLEAR = "no clear difference"
    SLOWER = "slower"
    NOT_CURED = "not cured"
    """The ailment is found as before."""
    MOVED = "loss moved"
    """Whatever its speed: it learns something else."""
    FAILED = "failed"
    """Its runs died, or made no steps to compare."""
    WITHOUT_EFFECT = "found no place to edit"
    """The override was there and the program never came by."""
    NOT_TRIED = "not tried"
    MEASURED = "measured once"
    """A run of its own, with no pair to compare it: a step of a search."""
    TOO_MUCH = "did not run"
    """The same, and it died or did not come to its end."""


@frozen
class Cure:
    """Whether an ailment's own sign is gone in a run with the remedy."""

    code: str
    name: str
    gone: bool | None
    """None where the run does not tell: its check could not judge."""
    words: str
    """`labels, unlabelled: 94, 0 with it`; `not found any more in as many steps`."""
    steps: int


@frozen
class Proof:
    """One change, measured."""

    ratio: float
    """Seconds a step without it by seconds with it; above 1 where it is faster.

    NaN (and so the interval) where no pair was run: its ailment's sign alone was looked at.
    """
    low: float
    high: float
    """Interval of the ratio that holds for all looks at the pairs together."""
    pairs: int
    """Pairs that count."""
    aside: int = 0
    """Pairs set aside because something outside stalled a run."""
    loss: str | None = None
    """`identical`, `within tolerance`, `moved`; None where no loss was seen."""
    verdict: str
    """`faster`, `slower`, `no clear difference`."""
    memory: tuple[int, int] | None = None
    """Highest bytes without and with it: of the device, or resident where there is none."""
    per: str = "step"
    """What the seconds are of: `step`, or `sample` where the batches differ in size."""
    cure: Cure | None = None
    """Of a remedy of something else than speed: whether that is gone with it."""

    @property
    def undecided(self) -> bool:
        """Whether its runs differ so much that their ratio says nothing: a busy machine tears them apart."""
        return self.verdict == "no clear difference" and self.high >= _ANYTHING * self.low


@frozen
class TrialPair:
    """Two runs one right after the other; seconds a step, or a sample where the batches differ."""

    baseline: float
    candidate: float
    candidate_first: bool
    """Which of the two ran first."""
    aside: bool
    """Whether it does not count, because something outside stalled one of the runs."""


@frozen
class TrialRow:
    """One change that was tried, or why it was not."""

    name: str
    """A remedy's id, `together`, or `KEY=VALUE`."""
    title: str
    conclusion: Conclusion
    reason: str = ""
    """Why it failed or was not tried."""
    proof: Proof | None = None
    step_seconds: float | None = None
    """Median over its runs."""
    samples_per_second: float | None = None
    """All ranks together, median over its runs; None where samples were not counted."""
    memory: int | None = None
    """Highest bytes of a rank with it: of the device, or resident where there is none."""
    patch: bool = False
    """Whether an edit of a file does it."""
    pairs: tuple[TrialPair, ...] = ()
    """In the order in which they ran."""


@frozen
class TrialSummary:
    """Everything that was tried on one command."""

    step_seconds: float | None
    """Of the baseline, median over its runs; None where it made no steps to measure."""
    warm_up_steps: int
    """Set aside at the start of every run."""
    steps: int
    """Measured in every run after them."""
    rows: tuple[TrialRow, ...] = ()
    """Proven first, best first."""
    together: TrialRow | None = None
    """The proven ones in one run; None where there are fewer than two."""
    seconds: float = 0.0
    budget: float = 0.0
    protection: str = ""
    """How the user's files were kept as they were, one clause."""
    kept_out: tuple[str, ...] = field(default=())
    """Files that the runs wrote, changed or deleted; none of it reached the user's."""
    protection_level: str = ""
    """The same in a word: `overlay` or `copy`."""
    not_sent: tuple[str, ...] = field(default=())
    """Trackers that were kept offline, and pushes to a hub that were refused."""
    patch: str = ""
    """The proven edits as a unified diff."""
    patch_path: str = ""
    kept: tuple[str, ...] = ()
    """Files that `--keep` has changed."""
    replay: Replay | None = None
    """The replay of a step with NaN; None where there was none to replay."""
