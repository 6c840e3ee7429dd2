"""Things that are on for a while and cost while they are: profilers, anomaly mode, recorders of memory."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from ..call_sites import Place, where
from ..guard import CALLER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "windows"
_GAP = 3
"""Steps that a window may be shut and still be the same window."""


class Window:
    """One thing, once."""

    def __init__(self, what: str, step: int, place: Place) -> None:
        self.what, self.place = what, place
        self.begin = self.end = step
        self.steps = self.on = 0
        """Steps in which it was on; how often it is on now."""


class Windows:
    """What is on, and what was."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._steps = probe.steps
        self._known: dict[tuple[str, Any, Any], Window] = {}
        self._next = 32
        self._anomaly = probe.torch.is_anomaly_enabled
        self.anomaly_place: Place = (None, None, None)

    def open(self, what: str, place: Place) -> None:
        """Something goes on."""
        self._probe.pace.leave()
        key = (what, place[0], place[1])
        window = self._known.get(key)
        step = self._steps.index
        if window is not None and not window.on and step > window.end + _GAP:
            self._tell(self._known.pop(key))
            window = None
        if window is None:
            if len(self._known) >= 32:
                return
            window = self._known[key] = Window(what, step, place)
        if not window.on:
            window.steps += step != window.end or not window.steps
        window.on += 1
        window.end = step

    def on(self) -> bool:
        """Whether something is on now."""
        return bool(self._known) and any(window.on for window in self._known.values())

    def shut(self, what: str) -> None:
        """Something goes off."""
        for window in self._known.values():
            if window.what == what and window.on:
                window.on -= 1
                window.end = self._steps.index

    def ended(self) -> None:
        """A step has ended."""
        on = self._anomaly()
        step = self._steps.index
        if self._known:
            for window in self._known.values():
                if window.what == "detect_anomaly" and window.on and not on:
                    window.on = 0
                if window.on and window.end < step:
                    window.end = step
                    window.steps += 1
        if on and not any(window.what == "detect_anomaly" and window.on for window in self._known.values()):
            self.open("detect_anomaly", self.anomaly_place)
        if step >= self._next and self._known:
            self._next = 8 * step
            for window in self._known.values():
                self._tell(window)

    def _tell(self, window: Window) -> None:
        path, line, _ = window.place
        fields = {"what": window.what, "begin": window.begin, "end": window.end, "steps": window.steps}
        step = self._steps.index
        lasting = window.on > 0 or step <= window.end + _GAP
        self._probe.record("window", {**fields, "on": lasting, "path": path, "line": line})

    def end(self) -> None:
        """The process ends."""
        for window in self._known.values():
            self._tell(window)


_WATCHED = (
    ("torch.profiler.profiler", "profile", "torch.profiler", "__enter__", "__exit__"),
    ("torch.autograd.profiler", "profile", "torch.autograd.profiler", "__enter__", "__exit__"),
    ("torch.profiler.profiler", "profile", "torch.profiler", "start", "stop"),
    ("torch.autograd.profiler", "emit_nvtx", "nvtx", "__enter__", "__exit__"),
    ("torch.utils.flop_counter", "FlopCounterMode", "flop_counter", "__enter__", "__exit__"),
    ("torch.cuda.memory", "", "memory-history", "_record_memory_history", ""),
    ("wandb", "", "wandb.watch", "watch", ""),
)
"""Module, class, what their windows are called, what begins one and what ends it (nothing: the end of the run)."""


def install(probe: Probe) -> None:
    """Listen to them."""
    windows = probe.windows = Windows(probe)
    for module, *names in _WATCHED:
        probe.when_imported(module, functools.partial(_watch, probe, windows, *names))
    anomaly: Any = sys.modules["torch.autograd.anomaly_mode"]

    def set_mode(_args: Any, _kwargs: Any) -> Any:
        probe.pace.leave()
        windows.anomaly_place = where(probe.places.user_frame(sys._getframe(CALLER)))

    for owner in ("detect_anomaly", "set_detect_anomaly"):
        probe.guard.surround(HOOK, getattr(anomaly, owner), "__init__", set_mode)


def _watch(probe: Probe, windows: Windows, kind: str, what: str, begin: str, end: str, module: Any) -> None:
    """Listen to the two ends of a window."""

    def opens(_args: Any, _kwargs: Any) -> Any:
        windows.open(what, where(probe.places.user_frame(sys._getframe(CALLER))))

    def shuts(_args: Any, _kwargs: Any) -> Any:
        windows.shut(what)

    owner = getattr(module, kind, None) if kind else module
    probe.guard.surround(HOOK, owner, begin, opens)
    probe.guard.surround(HOOK, owner, end, shuts)
