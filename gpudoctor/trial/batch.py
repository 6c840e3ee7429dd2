"""`--find-batch`: the largest batch that fits and the fastest one, each try in a process of its own.

Doubling from the job's own batch, as far as memory goes by the line through what was measured. The fastest is
confirmed in pairs against the job as it is, by the sample.
"""

from collections.abc import Callable

from gpudoctor.analysis.run.memory_growth import memory_limit as host_memory
from gpudoctor.lang import say
from gpudoctor.model.proof import TIME_RAN_OUT, Conclusion, TrialRow
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.session import TrialSession
from gpudoctor.trial.trial_runner import BASELINE, Arm
from gpudoctor.trial.window import TrialWindow

MEMORY_SHARE = 0.95
"""Of the device that may be planned for; its allocator needs the rest."""
HOST_SHARE = 0.6
"""Of the host's memory, where it trains on the CPU: others live there too."""
_GAIN = 1.03
"""A doubled batch that brings less than this, twice in a row, ends the search."""
_GREATER = 1.2
"""A doubled batch with less than so many times the samples is not greater any more."""
_DOUBLINGS = 12


@frozen
class Try:
    """One batch, run once."""

    batch: int
    window: TrialWindow | None
    """None where it did not fit or made too few steps."""
    problem: str = ""
    cut: bool = False
    """Whether our time was up: of the batch that says nothing."""

    @property
    def rate(self) -> float:
        """Samples a second; 0 where it failed."""
        found = self.window
        return found.samples / found.seconds if found is not None and found.samples else 0.0


def own_batch(recording: Recording) -> int | None:
    """Rows a batch of the training loader; None where no loader tells."""
    for process in recording.ranks:
        for record in reversed(process.of("loader")):
            size = record.get("batch_size")
            if record.get("role") == "training" and isinstance(size, int) and size > 0:
                return size
    return None


def memory_limit(recording: Recording) -> float | None:
    """Bytes that a rank may be planned to use: of its device, else a share of the host's."""
    for process in recording.ranks:
        record = process.first("torch")
        total = record.get("device_bytes") if record is not None else None
        if isinstance(total, int | float) and total > 0:
            return MEMORY_SHARE * total
    host = host_memory(recording)
    return HOST_SHARE * host / max(1, len(recording.ranks)) if host is not None else None


def find_batch(session: TrialSession, batch: int, arm_of: Callable[[int], Arm], limit: float | None) -> None:
    """Search, and put what was found into the session: a row a try, the fastest as an attempt."""
    with session.stopping():
        search = _Search(session, arm_of, limit)
        if search.run(batch, BASELINE).window is not None:
            search.double(batch)
        tries = sorted(search.tries, key=lambda item: item.batch)
        session.searched = [_row(item) for item in tries]
        fitting = [item for item in tries if item.window is not None]
        best = max(fitting, key=lambda item: item.rate, default=None)
        if best is not None and best.batch != batch and session.left > 0:
            title = say("batch {batch} instead of {present}", batch=best.batch, present=batch)
            session.attempts.append(session.attempt(f"batch={best.batch}", title, arm_of(best.batch), session.left))


class _Search:
    def __init__(self, session: TrialSession, arm_of: Callable[[int], Arm], limit: float | None) -> None:
        self._session, self._arm_of, self._limit = session, arm_of, limit
        self.tries: list[Try] = []

    def double(self, batch: int) -> None:
        """Up from the job's own, until it fails, does not fit or brings nothing."""
        idle = 0
        for _ in range(_DOUBLINGS):
            before, batch = self.tries[-1], 2 * batch
            if not self._session.left or self._too_much(batch):
                return
            found = self.run(batch, self._arm_of(batch))
            if found.window is None:
                return
            samples = before.window.samples if before.window is not None else None
            if samples and (found.window.samples or 0.0) < _GREATER * samples:
                return  # the data set has no more rows
            idle = idle + 1 if found.rate < _GAIN * before.rate else 0
            if idle == 2:
                return

    def _too_much(self, batch: int) -> bool:
        """Whether the line through the last two measurements leaves the limit."""
        points = [(item.batch, item.window.memory) for item in self.tries if item.window and item.window.memory]
        if self._limit is None or len(points) < 2:
            return False
        (before, less), (last, more) = points[-2:]
        slope = max(0.0, (more - less) / (last - before))
        return more + slope * (batch - last) > self._limit

    def run(self, batch: int, arm: Arm) -> Try:
        self._session.doing, self._session.current = f"batch {batch}", None
        lap = self._session.bench.lap(arm)
        cut = lap.finished.stopped_by == "seconds" and self._session.left <= 0
        made = Try(batch=batch, window=None if lap.problem else lap.window, problem=lap.problem, cut=cut)
        self.tries.append(made)
        return made


def _row(item: Try) -> TrialRow:
    window = item.window
    failed = Conclusion.NOT_TRIED if item.cut else Conclusion.TOO_MUCH
    return TrialRow(
        name=f"batch={item.batch}",
        title=f"batch {item.batch}",
        conclusion=Conclusion.MEASURED if window is not None else failed,
        reason=TIME_RAN_OUT if item.cut else item.problem,
        step_seconds=window.seconds if window else None,
        samples_per_second=item.rate or None,
        memory=window.memory if window else None,
    )
