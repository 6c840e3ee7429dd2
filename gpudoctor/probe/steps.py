"""Where one step of training ends and the next begins, in loops that carry no marker.

A step lies between two ends of the outermost `optimizer.step()`; with several optimizers the first one closes it.
Without an optimizer a step ends with its backward pass.
"""

from __future__ import annotations

import os
import sys
import weakref
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

from .call_sites import where
from .clock import BACKWARD, DATA_WAIT, EVALUATION, PROBE
from .importlib_bootstrap import nothing
from .table import AT, EMPTY, NAN, OTHER
from .wire.frames import private
from .wire.steps import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .probe import Probe

_COUNT, _DURATION, _LONGEST, _BACKWARDS, _RSS = (
    AT[name] for name in ("count", "duration", "longest", "backwards", "rss")
)

_PHASES = slice(DATA_WAIT, DATA_WAIT + len(PHASES))

ACCUMULATION = 512
"""Backward passes without a step of the optimizer that exists before they count as steps themselves."""
RARE, ALONE = 16, 8
"""Steps of another optimizer without one of the first after which it is the one whose steps are the steps, and steps
of the first one in a row after which two are enough.
"""

_ENGINES = (
    ("transformers.trainer", "transformers.Trainer"), ("lightning", "lightning"),
    ("pytorch_lightning", "lightning"), ("deepspeed.runtime", "deepspeed"), ("accelerate", "accelerate"),
)  # fmt: skip


class Steps:
    """Counts steps and closes their rows."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self.table = probe.table
        self.before: list[Callable[[], None]] = []
        """Called in the training thread when a step is about to end."""
        self.after: list[Callable[[], None]] = []
        """Called in the training thread when a step has ended."""
        self.fences: frozenset[int] = frozenset()
        """Steps of a trial before which `fence` is called, as the end of the step before."""
        self.fence: Callable[[], None] = nothing
        steps = os.environ.get("GPUDOCTOR_STEPS", "")
        self._stop_after = int(steps) if steps.isdigit() else 0
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
        self.batches = False
        """Whether batches were drawn so far."""
        self.optimizer_calls = 0
        """Steps of optimizers so far."""
        self.optimizers = 0
        """Optimizers made so far."""
        self.rss = NAN
        """Set by the sampler, taken by the next row."""
        self.stack: dict[Any, int] = {}
        """Functions of the user's stack at the end of a step, and the instruction they stood at."""
        self.anchor = 0
        """Id of the optimizer whose steps are the steps."""
        self.captured: list[Any] | None = None
        """Weak references to the optimizers whose steps a graph captures; None where none is captured."""
        self._made_after = 0
        """Steps of optimizers before the newest optimizer was made."""
        self._others = 0
        """Steps of other optimizers since the anchor's last."""
        self._run = 0
        """Steps of the anchor without one of another between, but for quick ones."""
        self._remembered = 0
        self._deferred = False
        self._idle_backwards = 0
        self._fresh = False
        self.drawn = 0.0
        """Seconds that the sampler saw the loop waiting for its own generator; moved to data wait."""
        self._debt = 0.0

    # -- what the hooks tell

    def loader_begins(self) -> None:
        """`iter(loader)`: as long as nothing was trained, the first step begins here."""
        if not self.backwards:
            self._restart()
            self._fresh = True

    def draw_begins(self) -> None:
        """A batch is about to be drawn from a loader."""
        if not self.backwards:
            if not self._fresh:
                self._restart()
            self._fresh = False

    def forward_begins(self) -> None:
        """The outermost module is called: without a loader, the first step begins here."""
        if not self.backwards and not self.batches:
            self._restart()

    def backward_ended(self) -> None:
        """An outermost backward pass is over."""
        self.backwards += 1
        self._probe.models.backward()
        self._clock.row[_BACKWARDS] += 1.0
        if self._deferred:
            self._deferred = False
            self._close_by("optimizer")
        elif self.marker == "backward":
            self.close()
        else:
            self._idle_backwards += 1
            if self._idle_backwards > 1 and self._idle_backwards > (ACCUMULATION if self.optimizers else 1):
                self._close_by("backward")

    def optimizer_made(self) -> None:
        """An optimizer is there, which may take part."""
        self.optimizers += 1
        self._made_after = self.optimizer_calls

    def optimizer_ended(self, optimizer: Any, key: int) -> None:
        """An outermost `optimizer.step()` is over (or was skipped by the scaler); `key` is its id."""
        self._idle_backwards = 0
        if self.captured is not None:  # nothing is computed yet: the graph's replays are the steps
            self.captured.append(weakref.ref(optimizer))
            return
        self.optimizer_calls += 1
        if self._clock.phase == BACKWARD:  # one optimizer a parameter, stepped by hooks of the backward pass
            self._deferred = True
            return
        if self._ends_step(key):
            self._close_by("optimizer")

    def anchor_ended(self) -> None:
        """The same in a quick step, of the optimizer whose steps are the steps."""
        clock, now = self._clock, perf_counter()
        clock.row[clock.phase] += now - clock.mark
        clock.mark, clock.phase = now, OTHER
        self._idle_backwards = 0
        self.optimizer_calls += 1
        if self._others:
            self._others = self._run = 0
        self._close()
        self._probe.pace.timed_ended()

    def _ends_step(self, key: int) -> bool:
        """Whether the step of an optimizer that has just ended is the end of a step of the training.

        That are the anchor's. Another one's is part of a cycle (a GAN's, Muon and AdamW), unless it goes on without
        the anchor.
        """
        if key == self.anchor:
            self._run = 1 if self._others else self._run + 1
            self._others = 0
            return True
        self._others += 1
        # One that was made since the last step begins a training of its own (a fold, a resume in one process). After
        # an anchor that was long alone the second step is enough.
        begins = self._made_after == self.optimizer_calls - 1
        if self.anchor and not begins and self._others < (2 if self._run > ALONE else RARE):
            return False
        self.anchor = key
        self._others = self._run = 0
        return True

    def may_be_quick(self) -> bool:
        """Whether nothing but the clock is asked at the end of a step."""
        return self.marker == "optimizer" and not (self.fences or self._stop_after)

    # -- how a step ends

    def _close_by(self, marker: str) -> None:
        if self.marker != marker:
            self._mark(marker)
        self.close()

    def _restart(self) -> None:
        clock = self._clock
        if clock.phase == EVALUATION:
            clock.phase = OTHER
        clock.row[:] = EMPTY
        clock.mark = self.last = perf_counter()

    def close(self) -> None:
        """The step in the making is over."""
        probe = self._probe
        if probe.sampler.paused:
            probe.sampler.go_on()
        if self.fences and self.index + 1 in self.fences:
            self.fence()
        if self._clock.light:
            self._close()
            probe.pace.timed_ended()
        else:
            began = perf_counter()
            for call in self.before:
                call()
            duration = self._close()
            own = self._clock.mark - began
            if self.index >= self._remembered:
                self._remembered = self.index + 64 if self.index > 2 else self.index + 1
                self._remember()
            for call in self.after:
                call()
            probe.pace.ended(duration, own)
        if self._clock.device is not None:
            self._clock.device.ended(self._clock.phase, self.index - 1)

    def _close(self) -> float:
        """It ends now, and its row is finished where it is to hold no more; returns its seconds."""
        clock, index = self._clock, self.index
        row, now = clock.row, perf_counter()
        row[clock.phase] += now - clock.mark
        clock.mark = now
        duration = now - self.last
        self.last = now
        count = row[_COUNT] + 1
        t = now - clock.started
        if count == 1:
            row[:5] = index, 1, t, duration, duration
        else:
            row[:5] = index, count, t, row[_DURATION] + duration, max(duration, row[_LONGEST])
        if self.rss is not NAN:
            row[_RSS] = self.rss
            self.rss = NAN
        if self.drawn or self._debt:
            self._pay(row)
        if count >= self.table.room:
            self.finish()
        if self._stop_after and index + 1 >= self._stop_after:
            self._stop(index + 1)
        self.index += 1
        return duration

    def _pay(self, row: list[float]) -> None:
        """A sample stands for 20 ms, a step may be shorter: what it cannot hold, the next ones do."""
        drawn, self.drawn = self.drawn, 0.0
        self._debt += drawn
        moved = max(0.0, min(self._debt, row[_DURATION] - sum(row[_PHASES]) - row[PROBE]))
        self._debt -= moved
        row[DATA_WAIT] += moved

    def finish(self) -> None:
        """The row in the making is complete, if a step has ended in it."""
        row = self._clock.row
        if row[_COUNT]:
            self._clock.row = [*EMPTY]  # first: an exception of a signal handler may come between any two
            row.pop()  # what no phase owns is the rest of the duration
            self.table.push(row)

    def _remember(self) -> None:
        stack: dict[Any, int] = {}
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(stack) < 32:
            if self._probe.places.is_user(frame.f_code):
                stack[frame.f_code] = frame.f_lasti
            frame = frame.f_back
        self.stack = stack

    def _mark(self, marker: str) -> None:
        self.marker, frame = marker, sys._getframe(1)
        self._probe.show()
        path, line, function = where(self._probe.places.user_frame(frame))
        place = {"path": path, "line": line, "function": function}
        self._probe.record("loop", {"marker": marker, **place, "engine": _engine(frame), "step": self.index})
        self._probe.sampler.lines.write()  # what was seen before the steps is told apart from what comes

    def _stop(self, steps: int) -> None:
        self._stop_after = 0
        identity = self._probe.identity
        if identity.rank in (None, 0):
            path = os.path.join(identity.folder, "stop")
            with open(path, "w", encoding="utf-8", opener=private) as stream:
                stream.write(str(steps))


def _engine(frame: FrameType | None) -> str | None:
    """The framework whose loop this is, by the modules on the stack; a Trainer's stands on accelerate's."""
    rank = len(_ENGINES)
    while frame is not None and rank:
        module = str(frame.f_globals.get("__name__", ""))
        rank = next((at for at in range(rank) if module.startswith(_ENGINES[at][0])), rank)
        frame = frame.f_back
    return _ENGINES[rank][1] if rank < len(_ENGINES) else None
