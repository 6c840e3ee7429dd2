"""What a job's memory will be on its GPU, computed before it runs: a sign like any other.

The reader (`gpudoctor.vitals.memory`) asks the analytic estimator; checks and rules see only its answers. What
nobody wrote down is in `guessed`, and was taken at what needs the least memory.
"""

from collections.abc import Mapping
from enum import Enum

from gpudoctor.model.evidence import Setting, SourceSpan
from gpudoctor.model.records import field, frozen

Choice = int | float | str | bool
"""A field's value, in the words of `gpudoctor estimate`'s flags."""


class Holds(Enum):
    """Whether a card holds a job."""

    FITS = "fits"
    """With the margin that its peak's instant wants."""
    TIGHT = "tight"
    """Fragmentation decides."""
    NOT = "does not fit"


@frozen
class Projection:
    """The job with some fields changed."""

    changes: Mapping[str, Choice]
    """Field to new value; empty for the job itself."""
    peak: int
    """Bytes allocated at the peak, on the fullest GPU."""
    holds: Holds


@frozen
class JobMemory:
    """The memory of one job, on one GPU of the machine that it is meant for."""

    title: str
    """The file that says most of it."""
    model: str
    values: Mapping[str, Choice]
    """Every field of the job as it was taken: `method`, `dtype`, `optimizer`, `seq`, `batch`, `accumulate`,
    `checkpointing`, `parallel`, `offload`, `gpus`, `nodes`..."""
    guessed: frozenset[str]
    """Fields that nobody wrote: taken at what needs least."""
    places: Mapping[str, Setting | SourceSpan] = field(default_factory=dict)
    """Field to where it is written."""
    assumptions: tuple[str, ...] = ()
    device: str
    device_origin: str
    """Where the card is known from, as a clause: `this machine's GPU 0`, `--gpu`."""
    device_bytes: int
    room: int
    """Bytes that context and communicators leave."""
    limit: int
    """Largest allocated peak that fits with its margin."""
    now: Projection
    instant: str
    """When its peak is: `the optimizer step`."""
    cuts: tuple[Projection, ...] = ()
    """Where it does not fit: changes that need less, in the order in which they are advised; the last may make
    several at once."""
    unchecked: Projection | None = None
    """Without gradient checkpointing, where it is on."""
    batches: tuple[Projection, ...] = ()
    """Greater micro batches that fit, each twice the one before."""
    layouts: tuple[Projection, ...] = ()
    """Other ways to shard, from the one that communicates least to the one that needs least memory; the
    present one is among them."""

    def projected(self, **changes: Choice) -> Projection | None:
        """The layout with exactly these changes."""
        return next((item for item in self.layouts if dict(item.changes) == changes), None)
