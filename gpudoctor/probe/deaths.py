"""How a process dies: an uncaught exception, an index beyond its table, missing memory, `sys.exit`."""

from __future__ import annotations

import faulthandler
import functools
import linecache
import os
import re
import signal
import sys
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from .call_sites import PROBE, stack_of, where
from .clock import NAMES
from .guard import interrupts
from .importlib_bootstrap import nothing
from .wire.frames import private
from .wire.masking import mask_cut

if TYPE_CHECKING:
    from .probe import Probe

_FRAMES = 60
_MESSAGE = 4000
_UNITS = {"B": 1, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "BYTES": 1}
_REQUESTED = re.compile(r"[Tt]ri(?:ed|ing) to allocate ([\d.]+) ?(\w+)")


class Deaths:
    """Watches for the end."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._written: set[int] = set()
        self._left: dict[str, Any] | None = None

    def look(self) -> None:
        """Write the exception that ends the main thread, once the interpreter knows it."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            self.write(error)

    def write(self, error: BaseException) -> None:
        """The `exception` record of an error."""
        if id(error) in self._written or isinstance(error, SystemExit):
            return
        self._written.add(id(error))
        self._probe.record("exception", self._fields(error))

    def _fields(self, error: BaseException) -> dict[str, Any]:
        """The fields of an `exception` record."""
        probe, clock = self._probe, self._probe.clock
        frames, user = _frames(probe, error.__traceback__)
        failed = clock.failed if clock.error == id(error) else clock.phase
        why = {"cause": _cause(error), "oom": _oom(probe.torch, error), "beyond": beyond(probe, error)}
        return self._told(_name(error), error, frames, user, failed, **why)

    def _told(
        self, name: str, words: object, frames: list[list[Any]], user: int | None, phase: int, **why: Any
    ) -> dict[str, Any]:
        shown = {"exception": name, "message": mask_cut(str(words), _MESSAGE), "frames": frames, "user": user}
        return {**shown, "cause": [], "oom": None, **why, "step": self._probe.steps.index, "phase": NAMES[phase]}

    @property
    def died(self) -> bool:
        """Whether the main thread has ended by an exception that the interpreter has shown."""
        return getattr(sys, "last_exc", None) is not None or getattr(sys, "last_value", None) is not None

    def leaves(self, code: Any, frame: FrameType | None) -> None:
        """The program calls `sys.exit(code)`: kept until the end, for it may yet be caught.

        Where an exception is being handled meanwhile, that is the reason, and what is told.
        """
        self._left = None
        if code is None or code == 0:
            return
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, SystemExit):
            if frame is not None and frame.f_globals.get("__name__") == "torch.multiprocessing.spawn":
                self._probe.show()  # the parent has the error by a file, and the child ends
                self.write(error)
            elif id(error) not in self._written:
                self._left = self._fields(error)
            return
        place = where(self._probe.places.user_frame(frame))
        if place[0] is None:
            return  # a child's own machinery hands on the exit code
        frames = [
            [path, line, function, mask_cut(linecache.getline(path, line).strip(), 300)]
            for path, line, function in stack_of(frame)
        ]
        user = max((at for at, row in enumerate(frames) if tuple(row[:3]) == place), default=None)
        self._left = self._told("SystemExit", code, frames, user, self._probe.clock.phase)

    def tell_exit(self) -> None:
        """The interpreter ends: the exit that led here, unless an exception did."""
        left, self._left = self._left, None
        if left is not None and not self.died and not self._written:
            self._probe.record("exception", left)


def _frames(probe: Probe, trace: TracebackType | None) -> tuple[list[list[Any]], int | None]:
    """`[path, line, function, text]` of a traceback, outermost first, and the index of the user's last."""
    rows: list[list[Any]] = []
    user = None
    steps = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(PROBE):
            steps.append(trace)
        trace = trace.tb_next
    if len(steps) > _FRAMES:
        steps = steps[: _FRAMES // 2] + steps[-_FRAMES // 2 :]
    for step in steps:
        code = step.tb_frame.f_code
        if probe.places.is_user(code):
            user = len(rows)
        text = linecache.getline(code.co_filename, step.tb_lineno).strip()
        rows.append([code.co_filename, step.tb_lineno, code.co_name, mask_cut(text, 300)])
    return rows, user


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _cause(error: BaseException) -> list[str]:
    """Types and messages of the exceptions behind this one, the nearest first."""
    causes: list[str] = []
    seen = {id(error)}
    behind = error.__cause__ or error.__context__
    while behind is not None and id(behind) not in seen and len(causes) < 4:
        seen.add(id(behind))
        causes.append(f"{_name(behind)}: {mask_cut(str(behind), 300)}")
        behind = behind.__cause__ or behind.__context__
    return causes


def _oom(torch: Any, error: BaseException) -> dict[str, Any] | None:
    """What was held when memory ran out; None for other errors."""
    text = str(error)
    device = type(error).__name__ == "OutOfMemoryError" or "CUDA out of memory" in text
    if not device and not isinstance(error, MemoryError) and "can't allocate memory" not in text:
        return None
    found = _REQUESTED.search(text)
    requested = float(found[1]) * _UNITS.get(found[2].upper(), 1) if found else None
    if not device or not torch.cuda.is_initialized():
        return {"device": "cpu", "requested": requested}
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return {
        "device": "cuda",
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "total": total,
        "requested": requested,
    }


# Which labels or indices a loss or an embedding was given, when it died of one that it does not have.
#
# Values are read where they lie in the host's memory; of what lies on a device only the shape is asked.

_FUNCTIONAL = os.path.join("torch", "nn", "functional.py")
_ASSERTIONS = ("is out of bounds", "index out of range in self", "device-side assert")


def beyond(probe: Probe, error: BaseException) -> dict[str, Any] | None:
    """`what` (`label`, `index`), `least` and `most` of them, and the `count` that there is; None for others."""
    text = str(error)
    if not any(word in text for word in _ASSERTIONS):
        return None
    try:
        found = _in_frames(probe.torch, error.__traceback__)
        return found if found is not None else probe.numerics.losses.beyond()
    except Exception as failed:
        if interrupts(failed):
            raise
        return None


def _in_frames(torch: Any, trace: TracebackType | None) -> dict[str, Any] | None:
    """What the innermost call of torch's that takes labels or indices was given."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.endswith(_FUNCTIONAL):
            given = trace.tb_frame.f_locals
            if code.co_name in ("cross_entropy", "nll_loss"):
                found = _labels(torch, given)
            elif code.co_name == "embedding":
                found = _row(torch, "index", given.get("input"), given["weight"].shape[0])
        trace = trace.tb_next
    return found


def _labels(torch: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    logits: Any = given["input"]
    labels: Any = given.get("target")
    if type(labels) is torch.Tensor and labels.is_cpu:
        labels = labels[labels != given.get("ignore_index", -100)]
    return _row(torch, "label", labels, logits.shape[1 if logits.dim() > 1 else 0])


def _row(torch: Any, what: str, values: Any, count: int) -> dict[str, Any] | None:
    if type(values) is not torch.Tensor or not values.is_cpu or values.is_floating_point():
        return None
    return told(what, int(values.min()), int(values.max()), int(count)) if values.numel() else None


def told(what: str, least: int, most: int, count: int) -> dict[str, Any] | None:
    """The fields, where one really lies outside."""
    if least >= 0 and most < count:
        return None
    return {"what": what, "least": least, "most": most, "count": count}


# Deaths by `sys.exit`, in spawned children too.

EXITS = "ends"


def install_exits(probe: Probe) -> None:
    """Watch `sys.exit`, where the reason of an exit is known: also of a child of `torch.multiprocessing.spawn`,
    which catches what the program raises and exits.
    """

    def leaves(args: Any, _kwargs: Any) -> None:
        probe.deaths.leaves(args[0] if args else None, sys._getframe(2))

    probe.guard.between(EXITS, sys, "exit", leaves, nothing)


# Stacks at fatal signals, written into a file of ours by the interpreter's C handlers (`faulthandler`).
#
# No handler of Python's is installed: it would have to wait for the interpreter, and what a signal does to the
# program would change. faulthandler's writes and hands over to what was there before. The program may use it too:
# what it turns on replaces ours, we never turn that off, and `is_enabled` speaks of it alone.

SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGHUP", "SIGQUIT", "SIGALRM")
"""Signals whose default is death, and that schedulers and launchers send."""


class Faults:
    """Our use of faulthandler, and the program's."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._stream: Any = None
        self._path = ""
        self._theirs = False
        """Whether the program has enabled faulthandler."""
        self._registered: set[int] = set()
        """Signals that we have registered, and the program has not since."""

    def watch(self) -> None:
        """Begin, unless the program has enabled faulthandler before."""
        identity = self._probe.identity
        if faulthandler.is_enabled() or not hasattr(faulthandler, "register"):
            return
        self._path = os.path.join(identity.folder, f"fault-{identity.label}-{identity.pid}.txt")
        self._stream = open(self._path, "wb", buffering=0, opener=private)  # noqa: SIM115 - while the process lives
        # Functions of faulthandler answer as if it were the program's alone.
        for name in _ORIGINALS:
            self._probe.guard.replace("ends", faulthandler, name, functools.partial(_named, getattr(self, f"_{name}")))
        _ORIGINALS["enable"](self._stream, all_threads=False)
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                _ORIGINALS["register"](number, self._stream, all_threads=False, chain=True)
                self._registered.add(number)

    def renew(self) -> bool:
        """In a forked child the handlers would write into the parent's file, at an orderly SIGTERM too."""
        stream, self._stream = self._stream, None
        if stream is None:
            return False
        for number in self._registered:
            if signal.getsignal(number) is signal.SIG_DFL:  # else the program has set one since
                _ORIGINALS["unregister"](number)
        self._registered.clear()
        if not self._theirs:
            _ORIGINALS["disable"]()
        stream.close()
        return True

    def close(self) -> None:
        """The interpreter ends in order: an empty file is none."""
        if self.renew() and os.path.getsize(self._path) == 0:
            os.unlink(self._path)

    def _is_enabled(self) -> bool:
        return self._theirs if self._stream is not None else _ORIGINALS["is_enabled"]()

    def _enable(self, *args: Any, **kwargs: Any) -> None:
        _ORIGINALS["enable"](*args, **kwargs)
        self._theirs = True

    def _disable(self) -> bool:
        if self._stream is None:
            return bool(_ORIGINALS["disable"]())
        was, self._theirs = self._theirs, False
        if was:
            _ORIGINALS["enable"](self._stream, all_threads=False)
        return was

    def _register(self, signum: int, *args: Any, **kwargs: Any) -> None:
        _ORIGINALS["register"](signum, *args, **kwargs)
        self._registered.discard(signum)

    def _unregister(self, signum: int) -> bool:
        was = signum not in self._registered
        self._registered.discard(signum)
        return bool(_ORIGINALS["unregister"](signum)) and was


def _named(work: Any, original: Any) -> Any:
    """A function of that name in the place of a builtin."""
    return functools.wraps(original)(lambda *args, **kwargs: work(*args, **kwargs))


_ORIGINALS: dict[str, Any] = {
    name: getattr(faulthandler, name)
    for name in ("disable", "enable", "is_enabled", "register", "unregister")
    if hasattr(faulthandler, name)
}
