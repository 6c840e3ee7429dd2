"""Where an operation was called: the user's line, the library's line, the module."""

from __future__ import annotations

import linecache
import os
import re
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..call_sites import PROBE
from ..models import class_name, unwrapped
from ..wire.masking import mask_cut

if TYPE_CHECKING:
    from ..probe import Probe

_DEPTH = 200
_TRACE = re.compile(r'File "([^"]{1,4096})", line (\d+), in (.+)')


class Spots:
    """Tells the frames of torch from those that use it."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._torch = os.path.join(os.path.dirname(probe.torch.__file__), "")

    def of(self, frame: FrameType | None) -> dict[str, Any]:
        """`place` (the user's innermost line) and `site` (a library's, where it called torch for the user)."""
        site = None
        for _ in range(_DEPTH):
            if frame is None:
                break
            code = frame.f_code
            if self._probe.places.is_user(code):
                place = _spot(code.co_filename, frame.f_lineno, code.co_name)
                return {"place": place, "site": site}
            if site is None and self._calls(code.co_filename):
                site = _spot(code.co_filename, frame.f_lineno, code.co_name)
            frame = frame.f_back
        return {"place": None, "site": site}

    def of_trace(self, lines: Any) -> dict[str, Any]:
        """The same of the stack that anomaly mode kept when the forward operation ran."""
        found: dict[str, Any] = {"place": None, "site": None}
        text = lines if isinstance(lines, (list, tuple)) else [str(lines or "")]
        for entry in reversed([part for item in text for part in str(item).split("\n")]):
            match = _TRACE.search(entry)
            if match is None:
                continue
            path, line, function = match[1], int(match[2]), match[3]
            if self._probe.places.is_own(path):
                found["place"] = _spot(path, line, function)
                return found
            if found["site"] is None and self._calls(path):
                found["site"] = _spot(path, line, function)
        return found

    def _calls(self, path: str) -> bool:
        """Whether a file is somebody's who calls torch: not torch, not ours, not generated."""
        return not path.startswith((self._torch, PROBE, "<"))


def _spot(path: str, line: int, function: str) -> dict[str, Any]:
    text = mask_cut(linecache.getline(path, line).strip(), 200)
    return {"path": path, "line": line, "function": function, "text": text}


class Modules:
    """The modules whose forwards are running, innermost last, and their names."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._running: list[Any] = []
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Listen to all modules."""
        module = self._torch.nn.modules.module
        self._handles = [
            module.register_module_forward_pre_hook(self._enters),
            module.register_module_forward_hook(self._leaves, always_call=True),
        ]

    def end(self) -> None:
        """Listen no longer."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._running.clear()

    def _enters(self, module: Any, _args: Any) -> None:
        if not self._running and id(module) not in self._names:
            inner = unwrapped(module)
            for name, child in inner.named_modules():
                self._names.setdefault(id(child), name)
        self._running.append(module)

    def _leaves(self, module: Any, _args: Any, _result: Any) -> None:
        while self._running:
            if self._running.pop() is module:
                break

    def now(self) -> dict[str, Any]:
        """Name and class of the innermost one; of the outermost its class."""
        if not self._running:
            return {"module": None, "module_class": None}
        module = self._running[-1]
        name = self._names.get(id(module), "")
        return {"module": name or class_name(module), "module_class": class_name(module)}


def outside(frame: FrameType | None) -> FrameType | None:
    """The first frame outside of the probe."""
    while frame is not None and frame.f_code.co_filename.startswith(PROBE):
        frame = frame.f_back
    return frame


def here() -> FrameType | None:
    """The frame that led into the probe."""
    return outside(sys._getframe(1))
