"""Places in the user's code: which frame of a stack is the user's, and what a place has cost so far."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Optional, Tuple

from .stacks import Spot, line_of

if TYPE_CHECKING:
    from .probe import Probe

Place = Tuple[Optional[str], Optional[int], Optional[str]]
"""Path, line and function; all None where they are not known."""

PROBE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_COMPILED = f"{os.sep}torchinductor_"
"""Part of the path of code that torch.compile has written."""
_DEPTH = 60
"""Frames that are looked at, innermost first."""

FRAMEWORKS = frozenset(
    {
        "torch", "transformers", "accelerate", "lightning", "pytorch_lightning", "lightning_fabric",
        "deepspeed", "datasets", "peft", "trl", "numpy", "PIL", "torchvision", "torchaudio", "wandb",
        "tensorboard", "mlflow", "tqdm", "ignite", "fastai", "composer", "torchmetrics", "sklearn", "scipy",
        "pandas", "tokenizers", "safetensors", "bitsandbytes", "timm", "hydra", "click", "fire", "typer",
        "absl", "ray", "horovod",
    }
)  # fmt: skip
"""Packages that are never the user's, whatever started them."""


_INSTRUMENTS = (
    "torch/utils/flop_counter.py", "torch/profiler/", "fvcore/nn/", "deepspeed/profiling/", "/ptflops/",
    "/thop/", "/calflops/", "/torchprofile/", "/line_profiler/", "/viztracer/", "/pydevd", "/debugpy/",
    "/coverage/",
)  # fmt: skip
"""Files whose functions measure a program; a dispatch mode or hook of theirs runs inside its operations."""


class Places:
    """Tells the user's files from the libraries' (the standard library, site-packages, ours)."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        roots = {paths.get(name, "") for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        self._roots = tuple(os.path.join(root, "") for root in roots if root)
        self._known: dict[str, bool] = {}
        self._instruments: dict[str, bool] = {}
        # By path: equal functions of two files are equal as `code`.
        self._own = ""

    def is_user(self, code: CodeType) -> bool:
        """Whether a function is the user's."""
        path = code.co_filename
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self.is_own(path)
        return known

    def is_own(self, path: str) -> bool:
        """Whether a file is the program's."""
        if path.startswith("<"):
            # `<string>` is the program under `python -c`, and generated code elsewhere (dataclasses).
            return path in ("<string>", "<stdin>") and sys.argv[:1] == ["-c"]
        if path.startswith(PROBE) or _COMPILED in path:
            return False
        if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
            return bool(self._main_package()) and path.startswith(self._main_package())
        return not path.startswith(self._roots) and not _framework(path)

    def _main_package(self) -> str:
        """The folder of an installed package that is the program itself (`python -m llamafactory...`)."""
        if not self._own:
            self._own = _installed_program() or "-"
        return "" if self._own == "-" else self._own

    def user_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame of the user's, from here outward; None where there is none."""
        known = self._known
        for _ in range(_DEPTH):
            if frame is None:
                return None
            code = frame.f_code
            found = known.get(code.co_filename)
            if found is None:
                found = self.is_user(code)
            if found:
                return frame
            frame = frame.f_back
        return None

    def user_index(self, stack: list[Spot]) -> int | None:
        """Where in a stack the user's innermost function is; None where there is none."""
        return next((at for at, (code, _) in enumerate(stack) if self.is_user(code)), None)

    def instrument(self, stack: list[Spot]) -> CodeType | None:
        """The innermost function of a stack that measures the program, or None."""
        known = self._instruments
        for code, _ in stack[:_DEPTH]:
            path = code.co_filename
            found = known.get(path)
            if found is None:
                # A project may lie in a folder called `coverage`: what leads to it says nothing of its files.
                beside = _program_folder()
                below = path[len(beside) - 1 :] if path.startswith(beside) else path
                slashed = below.replace(os.sep, "/")
                found = known[path] = any(part in slashed for part in _INSTRUMENTS)
            if found:
                return code
        return None


def _framework(path: str) -> bool:
    """Whether a file is part of an imported framework that lies elsewhere: an editable install, a folder on
    the path. What lies beside the program is the program's, whatever it is called.
    """
    if path.startswith(_program_folder()):
        return False
    for part in FRAMEWORKS.intersection(path.split(os.sep)):
        home = getattr(sys.modules.get(part), "__file__", None)
        if home and path.startswith(os.path.join(os.path.dirname(home), "")):
            return True
    return False


def _program_folder() -> str:
    """The folder of the script that runs, with a separator at its end; no file's path if there is none."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.join(os.path.dirname(os.path.abspath(main)), "") if main else "\0"


def _installed_program() -> str:
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    for marker in ("site-packages", "dist-packages"):
        head, found, rest = path.partition(f"{os.sep}{marker}{os.sep}")
        package = rest.split(os.sep)[0]
        if found and package.partition(".")[0] not in FRAMEWORKS:
            return os.path.join(head, marker, package, "") if os.sep in rest else path
    return ""


def where(frame: FrameType | None) -> Place:
    """The place of a frame."""
    if frame is None:
        return None, None, None
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def stack_of(frame: FrameType | None) -> list[list[Any]]:
    """`[path, line, function]` of this thread's stack without our own frames, outermost first."""
    stack: list[Spot] = []
    while frame is not None and len(stack) < 2 * _DEPTH:
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return rows_of(stack)


def rows_of(stack: list[Spot], limit: int = 64) -> list[list[Any]]:
    """`[path, line, function]` of a stack without our own functions, outermost first."""
    shown = [spot for spot in stack if not spot[0].co_filename.startswith(PROBE)][:limit]
    return [[spot[0].co_filename, line_of(spot), spot[0].co_name] for spot in reversed(shown)]


class Site:
    """One place of one kind of call, and its cost."""

    __slots__ = ("_fields", "_step", "_written")

    def __init__(self, phase: str, what: str, frame: FrameType | None, tensor: bool) -> None:
        path, line, function = where(frame)
        self._fields: dict[str, Any] = {
            "phase": phase, "what": what, "path": path, "line": line, "function": function, "calls": 0,
            "seconds": 0.0, "longest": 0.0, "steps": 0,
        }  # fmt: skip
        """The `site` record."""
        if tensor:
            self._fields["tensor"] = True
        self._step = -1
        self._written = 0, 0.0

    def add(self, seconds: float, step: int) -> None:
        """One call."""
        fields = self._fields
        fields["calls"] += 1
        fields["seconds"] += seconds
        if seconds > fields["longest"]:
            fields["longest"] = seconds
        if step != self._step:
            self._step = step
            fields["steps"] += 1

    def grown(self, everything: bool) -> bool:
        """Whether it is worth writing again; at the end whatever is not written as it is."""
        (calls, seconds), fields = self._written, self._fields
        if everything:
            return bool(fields["calls"] != calls)
        return bool(fields["calls"] > 1.25 * calls or fields["seconds"] > 1.25 * seconds + 1e-3)

    def record(self) -> dict[str, Any]:
        """The record as it is now."""
        fields = dict(self._fields)
        self._written = fields["calls"], fields["seconds"]
        return {**fields, "seconds": round(fields["seconds"], 6), "longest": round(fields["longest"], 6)}


SITES = 96
"""Places of one process that are told apart; all others of a kind share one without a line."""


class Sites:
    """All places, found by kind, code and instruction."""

    def __init__(self, probe: Probe) -> None:
        self._places = probe.places
        self._sites: dict[tuple[Any, ...], Site] = {}
        self._calls: dict[tuple[Any, ...], Site] = {}

    def at(self, phase: str, what: str, frame: FrameType | None, tensor: bool = False) -> Site:
        """The site of a call; `frame` is the innermost that may be the user's."""
        frame = self._places.user_frame(frame)
        # The line number is dear, the instruction's offset is not.
        call = (what, tensor, frame.f_code, frame.f_lasti) if frame is not None else (what, tensor, None, 0)
        site = self._calls.get(call)
        if site is None:
            site = self._new(phase, what, frame, tensor)
            if len(self._calls) < 4 * SITES:
                self._calls[call] = site
        return site

    def _new(self, phase: str, what: str, frame: FrameType | None, tensor: bool) -> Site:
        if frame is not None and len(self._sites) >= SITES:
            frame = None
        key = (what, tensor, frame.f_code, frame.f_lineno) if frame is not None else (what, tensor, None, 0)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(phase, what, frame, tensor)
        return site

    def grown(self, everything: bool = False) -> list[Site]:
        """Those to be written."""
        return [site for site in list(self._sites.values()) if site.grown(everything)]
