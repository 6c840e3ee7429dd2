"""One tick of a watch: what was seen and what it means. The screen is a pure function of it."""

from gpudoctor.model.records import frozen
from gpudoctor.model.report import Report
from gpudoctor.model.signs.process import ProcessWindow


@frozen
class Tick:
    """What a screen, a line of a log or a file shows."""

    window: ProcessWindow
    report: Report
    """The examination of this window; it may be a tick or two older than the window."""


@frozen
class FoundJob:
    """One training job on this machine."""

    pid: int
    """What to give to `watch`: the launcher, or the process itself."""
    ranks: tuple[int, ...]
    """Pids of its training processes."""
    user: str
    seconds: float
    gpus: tuple[int, ...] | None
    """Indices of the GPUs that it holds; None where that cannot be told."""
    command: str
