"""Where one step of training ends and the next begins, in loops that carry no marker.

A step lies between two ends of the outermost `optimizer.step()` of a cycle. With several optimizers one of
them is the anchor that closes the cycle: the one that came last when they alternate (a GAN's generator, the
second of Muon and AdamW), unless it steps so rarely that the others make the rhythm. Without an optimizer a
step ends with its backward pass, and without those with the next batch.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

from .clock import BACKWARD, DATA_WAIT, EVALUATION
from .places import where
from .table import AT, EMPTY, OTHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from .probe import Probe

_INDEX, _COUNT, _T, _DURATION, _LONGEST, _BACKWARDS, _RSS = (
    AT[name] for name in ("index", "count", "t", "duration", "longest", "backwards", "rss")
)
NAN = float("nan")

RARE = 16
"""Steps of other optimizers after which one that was the anchor has lost the rhythm."""
ACCUMULATION = 512
"""Backward passes without a step of the optimizer that exists before they count as steps themselves."""
DRAWS = 32
"""Batches without any backward pass before they count as steps (inference, training without autograd)."""

_ENGINES = (
    ("transformers.trainer", "transformers.Trainer"), ("lightning", "lightning"),
    ("pytorch_lightning", "lightning"), ("deepspeed.runtime", "deepspeed"), ("accelerate", "accelerate"),
)  # fmt: skip


class Steps:
    """Counts steps and closes their rows."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._table = probe.table
        self.before: list[Callable[[], None]] = []
        """Called in the training thread when a step is about to end."""
        self.after: list[Callable[[], None]] = []
        """Called in the training thread when a step has ended."""
        self._stop_after = _positive(os.environ.get("GPUDOCTOR_STEPS"))
        self.renew()

    def renew(self) -> None:
        """In a new process: nothing was trained yet."""
        self.index = 0
        """Steps that have ended, and so the number of the one in the making."""
        self.last = self._clock.started
        """When the last one ended."""
        self.marker = ""
        self.backwards = 0
        """Backward passes so far."""
        self.batches = 0
        """Batches drawn so far."""
        self.optimizer_calls = 0
        """Steps of optimizers so far."""
        self.optimizers = 0
        """Optimizers made so far."""
        self.rss = NAN
        """Set by the sampler, taken by the next row."""
        self.stack: dict[Any, int] = {}
        """Functions of the user's stack at the end of a step, and the instruction they stood at."""
        self._anchor = 0
        self._seen: set[int] = set()
        self._others = 0
        self._deferred = False
        self._idle_backwards = 0
        self._idle_draws = 0
        self._fresh = False
        self.drawn = 0.0
        """Seconds that the sampler saw the loop waiting for its own generator; moved to data wait."""
        self._debt = 0.0

    # -- what the hooks tell

    def loader_begins(self) -> None:
        """`iter(loader)`: as long as nothing was trained, the first step begins here."""
        if not self.backwards and self.marker != "loader":
            self._restart()
            self._fresh = True

    def draw_begins(self) -> None:
        """A batch is about to be drawn from a loader."""
        if self.marker == "loader":
            self.close(sys._getframe(2))
        elif not self.backwards:
            if not self._fresh:
                self._restart()
            self._fresh = False
            self._idle_draws += 1
            if self._idle_draws >= DRAWS and not self.optimizers and not self.index:
                self._mark("loader", sys._getframe(2))

    def forward_begins(self) -> None:
        """The outermost module is called: without a loader, the first step begins here."""
        if not self.backwards and not self.batches:
            self._restart()

    def backward_ended(self, frame: FrameType | None) -> None:
        """An outermost backward pass is over."""
        self.backwards += 1
        self._clock.row[_BACKWARDS] += 1.0
        if self._deferred:
            self._deferred = False
            self._close_by("optimizer", frame)
        elif self.marker == "backward":
            self.close(frame)
        else:
            self._idle_backwards += 1
            if self._idle_backwards > (ACCUMULATION if self.optimizers else 1):
                self._close_by("backward", frame)

    def optimizer_ended(self, optimizer: Any, frame: FrameType | None) -> None:
        """An outermost `optimizer.step()` is over (or was skipped by the scaler)."""
        self._idle_backwards = 0
        self.optimizer_calls += 1
        if self._clock.phase == BACKWARD:  # one optimizer a parameter, stepped by hooks of the backward pass
            self._deferred = True
            return
        key = id(optimizer)
        if key not in self._seen:
            self._seen.add(key)
            self._anchor = key
        elif key != self._anchor:
            self._others += 1
            if self._others <= RARE:
                return
            self._anchor = key
        self._others = 0
        self._close_by("optimizer", frame)

    # -- how a step ends

    def _close_by(self, marker: str, frame: FrameType | None) -> None:
        if self.marker != marker:
            self._mark(marker, frame)
        self.close(frame)

    def _restart(self) -> None:
        clock = self._clock
        if clock.phase == EVALUATION:
            clock.phase = OTHER
        clock.row[:] = EMPTY
        clock.mark = self.last = perf_counter()

    def close(self, frame: FrameType | None) -> None:
        """The step in the making is over."""
        for call in self.before:
            call()
        clock = self._clock
        clock.switch(clock.phase)
        row = clock.row
        now = clock.mark
        duration = now - self.last
        self.last = now
        row[_INDEX] = self.index
        row[_COUNT] = 1
        row[_T] = now - clock.started
        row[_DURATION] = row[_LONGEST] = duration
        if self.rss == self.rss:
            row[_RSS] = self.rss
            self.rss = NAN
        other = row.pop()  # what no phase owns is the rest of the duration
        if self.drawn:
            # A sample stands for 20 ms, a step may be shorter: what it cannot hold, the next ones do.
            drawn, self.drawn = self.drawn, 0.0
            self._debt += drawn
        if self._debt:
            moved = max(0.0, min(self._debt, other))
            self._debt -= moved
            row[DATA_WAIT] += moved
        self._table.push(row)
        clock.row = [*EMPTY]
        self.index += 1
        if not self.index & 63 or self.index < 3:
            self._remember(frame)
        if self.index == self._stop_after:
            self._stop()
        for call in self.after:
            call()

    def _remember(self, frame: FrameType | None) -> None:
        stack: dict[Any, int] = {}
        while frame is not None and len(stack) < 32:
            if self._probe.places.is_user(frame.f_code):
                stack[frame.f_code] = frame.f_lasti
            frame = frame.f_back
        self.stack = stack

    def _mark(self, marker: str, frame: FrameType | None) -> None:
        self.marker = marker
        self._probe.show()
        path, line, function = where(self._probe.places.user_frame(frame))
        place = {"path": path, "line": line, "function": function}
        self._probe.record("loop", {"marker": marker, **place, "engine": _engine(frame), "step": self.index})
        self._probe.sampler.lines.write()  # what was seen before the steps is told apart from what comes

    def _stop(self) -> None:
        identity = self._probe.identity
        if identity.rank in (None, 0):
            with open(os.path.join(identity.folder, "stop"), "w", encoding="utf-8") as stream:
                stream.write(str(self.index))


def _positive(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _engine(frame: FrameType | None) -> str | None:
    """The framework whose loop this is, by the modules on the stack; a Trainer's stands on accelerate's."""
    rank = len(_ENGINES)
    while frame is not None and rank:
        module = str(frame.f_globals.get("__name__", ""))
        rank = next((at for at in range(rank) if module.startswith(_ENGINES[at][0])), rank)
        frame = frame.f_back
    return _ENGINES[rank][1] if rank < len(_ENGINES) else None
