"""What an estimate says: named instants, each a sum of lines, and what the card will show."""

from enum import Enum

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.model import Provenance
from gpudoctor.model.records import field, frozen


@frozen
class Line:
    """One term of the memory at an instant, on one GPU."""

    kind: str
    """What it is, in kebab-case: `weights`, `gradients`, `optimizer`, `checkpoints`, `loss`, `kv-cache`..."""
    bytes: int
    """Its size on the fullest GPU."""
    formula: str
    """How it comes about, with the numbers in it: `2 B x 7,241,732,096 parameters`."""
    source: str
    """Where the formula comes from: a library with its version, a paper, a derivation."""
    provenance: Provenance = Provenance.ANALYTIC
    """Whether it was computed, traced, measured or declared."""


def line(kind: str, amount: float, formula: str, source: str) -> Line:
    """An analytic line, in whole bytes."""
    return Line(kind=kind, bytes=round(amount), formula=formula, source=source)


@frozen
class Instant:
    """One moment of the run at which the memory may peak."""

    name: str
    """`load`, `step`, `loss`, `layer`, `accumulation`; in inference `prefill`, `decode`."""
    title: str
    """The same for a person: "the optimizer step"."""
    lines: tuple[Line, ...]
    """What is alive then, largest kinds first as a rule."""
    bytes: int = field(init=False)
    """The sum of the lines: what torch.cuda.max_memory_allocated would report had it peaked there."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", sum(line.bytes for line in self.lines))


class Verdict(Enum):
    """Whether the job fits a card."""

    FITS = "fits"
    """It fits with the margin that the instant of its peak wants."""
    TIGHT = "tight"
    """It may run, or run out of memory: fragmentation decides."""
    DOES_NOT_FIT = "does not fit"
    """Its allocated peak and what surrounds it are beyond the card."""


@frozen
class Device:
    """One kind of GPU."""

    name: str
    bytes: int
    """Memory that the driver reports as total."""
    capability: tuple[int, int] | None = None
    """Compute capability; None for what is not NVIDIA's or is not known."""
    context: int | None = None
    """Bytes of the CUDA context that were read on this card; None where none were."""


@frozen
class Reach:
    """Between which allocated bytes the peak lies, whatever was left unsaid."""

    low: int
    """With the leanest kernels that such a job may run."""
    high: int
    least: int
    """The same where rows are shorter than they may be: what no such job goes without."""


@frozen
class CardReading:
    """What the card will show while the job runs, and whether it holds it."""

    device: Device | None
    """The card asked for; None when none was."""
    reserved: tuple[int, int]
    """What torch's allocator will have reserved at the peak, lowest and highest."""
    used: tuple[int, int]
    """What nvidia-smi will show for the process, lowest and highest."""
    expected: int
    """The middle of the road: what nvidia-smi will most likely show."""
    lines: tuple[Line, ...]
    """What stands beside the allocated bytes: context, libraries, communicators, cached blocks."""
    limit: int | None
    """Largest allocated peak that counts as fitting this card, with the margin of its instant; None without a
    card."""
    verdict: Verdict | None
    reason: str
    """The verdict's reason in one clause with its numbers; "" without a card."""


@frozen
class Estimate:
    """The memory of one job on its fullest GPU."""

    shape: ModelShape
    job: TrainingJob
    instants: tuple[Instant, ...]
    """Every instant that was considered, in the order of a run."""
    peak: Instant
    static: int
    """What stays allocated between two steps: weights, optimizer state, buffers."""
    reach: Reach
    card: CardReading
    """From allocated bytes to the card."""
    assumptions: tuple[str, ...] = ()
    """What was taken for granted, each a short sentence."""
    notes: tuple[str, ...] = ()
    """What the user should know: a library's trap that this job meets, a term without an exact constant."""

    @property
    def total_bytes(self) -> int:
        """The allocated peak."""
        return self.peak.bytes

    @property
    def fits(self) -> bool | None:
        """False when it does not fit, None without a card; tight counts as fitting."""
        return None if self.card.verdict is None else self.card.verdict is not Verdict.DOES_NOT_FIT
