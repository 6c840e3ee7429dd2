"""Where ticks come from and where else they go: a live session or a tape, a new tape, metrics."""

from contextlib import suppress
from pathlib import Path

from gpudoctor.model.flames import FlameProfile
from gpudoctor.model.watch import Tick
from gpudoctor.watch.exporter import Exporter
from gpudoctor.watch.session import WatchSession
from gpudoctor.watch.tape import TapeReader, TapeWriter


class TickSource:
    """Ticks of a session or of a tape; each is served as metrics, and goes to a tape while one is written."""

    def __init__(self, inner: WatchSession | TapeReader, exporter: Exporter | None = None) -> None:
        self._inner, self._exporter = inner, exporter
        self._tape: TapeWriter | None = None

    def tick(self, *, judge: bool = False, last: bool = False) -> Tick | None:
        """The next tick, as a session gives it; None at the end of a tape."""
        if isinstance(self._inner, WatchSession):
            tick: Tick | None = self._inner.tick(judge=judge, last=last)
        else:
            tick = self._inner.tick()
        if tick is None:
            return None
        if self._exporter is not None:
            self._exporter.take(tick)
        if self._tape is not None:
            self._tape.write(tick)
        return tick

    def flames(self) -> list[FlameProfile]:
        """The stacks of the whole watch; none of a tape."""
        return self._inner.flames() if isinstance(self._inner, WatchSession) else []

    def pause(self, on: bool) -> None:
        """Stop looking, or go on."""
        self._inner.pause(on)

    def record(self, path: Path | None) -> None:
        """Write ticks to a new tape from now on, or no more. Raises `UsageError`."""
        if self._tape is not None:
            self._tape.close()
        self._tape = TapeWriter(path) if path else None

    def close(self) -> None:
        """End everything; the job goes on."""
        if isinstance(self._inner, WatchSession):
            self._inner.close()
        if self._exporter is not None:
            with suppress(OSError):
                self._exporter.close()
        if self._tape is not None:
            self._tape.close()
