"""What libraries say themselves: warnings of Python and of their loggers, each text once, with its count."""

from __future__ import annotations

import re
import sys
from types import BuiltinFunctionType, FrameType
from typing import TYPE_CHECKING, Any

from .call_sites import FRAMEWORKS, PROBE, where
from .wire.masking import mask_cut

if TYPE_CHECKING:
    from .probe import Probe

WARNINGS = "warnings"
_MOST, _LONGEST = 64, 500
"""Texts that are told apart, and characters of one."""
_OURS = ("warnings", "_py_warnings", "logging", "functools", "lightning_utilities.core.rank_zero")
_LEVEL = 30
_NUMBER = re.compile(r"\d+")
_LOGGERS = FRAMEWORKS | {"DeepSpeed", "diffusers", "huggingface_hub", "unsloth", "axolotl", "llamafactory"}


class Warned:
    """The texts so far. Called only where something warns: no step of a quiet training comes here."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._seen: dict[tuple[str, str], dict[str, Any]] = {}

    def tell(self) -> None:
        """Write again what has come more than once."""
        for fields in list(self._seen.values()):
            if fields["count"] > 1:
                self._probe.record("warning", fields)

    def shown(self, told: Any) -> None:
        """A warning that Python is about to show; one that the program catches, nobody sees."""
        if isinstance(sys.modules["warnings"]._showwarnmsg_impl, BuiltinFunctionType):
            return
        text, frame = str(told.message), _caller()
        library = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame is not None else ""
        if "(Triggered internally at" in text:
            library = "torch"
        elif frame is not None and self._probe.places.is_user(frame.f_code):
            library = ""
        self._keep(library, text, text, frame)

    def logged(self, record: Any) -> None:
        """A record of a logger."""
        library = record.name.partition(".")[0]
        if record.levelno >= _LEVEL and library in _LOGGERS:
            self._keep(library.lower(), str(record.msg), record, _caller())

    def _keep(self, library: str, form: str, told: Any, frame: FrameType | None) -> None:
        key = library, _NUMBER.sub("0", form[:_LONGEST])
        known = self._seen.get(key)
        if known is not None:
            known["count"] += 1
        elif len(self._seen) < _MOST:
            text = told if isinstance(told, str) else told.getMessage()
            path, line, function = where(self._probe.places.user_frame(frame))
            self._seen[key] = {
                "library": library,
                "text": mask_cut(text, _LONGEST),
                "count": 1,
                "step": self._probe.steps.index,
                "path": path,
                "line": line,
                "function": function,
            }
            self._probe.record("warning", self._seen[key])


def _caller() -> FrameType | None:
    """The frame that warns."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith(PROBE) or frame.f_globals.get("__name__") in _OURS
    ):
        frame = frame.f_back
    return frame


def install(probe: Probe) -> None:
    """Hear what Python shows, and what loggers hand to their handlers."""

    def hear(owner: Any, name: str, work: Any, argument: int) -> None:
        safe = probe.guard.safely(WARNINGS, work)
        probe.guard.install(WARNINGS, owner, name, lambda args, _: safe(args[argument]), lambda *_: None)

    warned = probe.warned
    probe.when_imported("warnings", lambda module: hear(module, "_showwarnmsg", warned.shown, 0))
    probe.when_imported("logging", lambda module: hear(module.Logger, "callHandlers", warned.logged, 1))
