"""Two runs side by side, as `compare` shows them. Seconds, bytes and ratios are plain numbers."""

from enum import Enum

from gpudoctor.model.records import frozen
from gpudoctor.model.run import RunSummary


class Change(Enum):
    """What became of the speed."""

    FASTER = "faster"
    SLOWER = "slower"
    UNCLEAR = "no clear difference"
    UNKNOWN = "not comparable"


@frozen
class Ratio:
    """The second run over the first, with a 95 % interval over blocks of steps."""

    value: float
    low: float
    high: float


@frozen
class Row:
    """One quantity in both runs; None where it was not known."""

    name: str
    unit: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After over before; None where one is not known or before is 0."""
        if self.before is None or self.after is None or self.before <= 0:
            return None
        return self.after / self.before


@frozen
class Comparison:
    """What changed from one run to another."""

    before: RunSummary
    after: RunSummary
    measure: str
    """What `time` is of: `step`, or `sample` where the batches differ in size."""
    time: Ratio | None
    """Time a step or a sample; None where one run is too short."""
    change: Change
    speed: tuple[Row, ...]
    phases: tuple[Row, ...]
    """Seconds a step, those that changed most first."""
    memory: tuple[Row, ...]
    loss: str
    """`identical`, `within 0.2 %`, `different`, or "" where neither has one."""
    gone: tuple[str, ...]
    """Findings (code and name) of the first run only."""
    new: tuple[str, ...]
    """Findings of the second run only."""
    verdict: str
    other_job: tuple[str, ...] = ()
    """What makes them recordings of two jobs, a clause each; empty for one job."""
    other_setting: tuple[str, ...] = ()
    """What else differs between them, a clause each."""

    def beyond(self, most: float) -> bool:
        """Whether the time grew by more than a share, and not by chance."""
        return self.time is not None and self.time.value > 1.0 + most and self.time.low > 1.0
