"""What torch.compile does while training runs: compiles, recompiles and graph breaks, as Dynamo counts
them.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .probe import Probe

DYNAMO = "torch._dynamo.eval_frame"
CALLS_THE_PROGRAM = frozenset({"hooked"})
"""Names of our functions that call the program's."""
_FEW = 64
"""Records of one kind; Dynamo may break everywhere."""


class Compiling:
    """Reads Dynamo's own books, if it is loaded. Called once a second by the writing thread."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._seen: set[Any] = set()
        self._breaks: dict[str, int] = {}
        self._told: dict[str, int] = {}

    def look(self) -> None:
        """Write what is new."""
        utils = sys.modules.get("torch._dynamo.utils")
        if utils is None or not hasattr(utils, "counters"):
            return
        for metrics in list(getattr(utils, "_compilation_metrics", ())):
            self._compiled(metrics)
        for reason, count in list(utils.counters["graph_break"].items()):
            known = self._breaks.get(reason, 0)
            if count > known:
                self._breaks[reason] = count
                if not known:
                    self._tell("graph-break", {"reason": str(reason)[:500], "count": count})

    def _compiled(self, metrics: Any) -> None:
        key = (getattr(metrics, "compile_id", None), getattr(metrics, "start_time", None))
        if key in self._seen:
            return
        self._seen.add(key)
        reason = getattr(metrics, "recompile_reason", None)
        number = str(getattr(metrics, "compile_id", "") or "")
        again = bool(reason) or number.rpartition("/")[2] not in ("", "0")
        seconds = getattr(metrics, "entire_frame_compile_time_s", None)
        micros = getattr(metrics, "duration_us", None)
        if seconds is None and micros is not None:
            seconds = micros / 1e6
        fields = {
            "reason": str(reason)[:500] if reason else None,
            "seconds": seconds,
            "path": getattr(metrics, "co_filename", None),
            "line": getattr(metrics, "co_firstlineno", None),
            "function": getattr(metrics, "co_name", None),
            "failed": getattr(metrics, "fail_type", None),
        }
        self._tell("recompile" if again else "compile", fields)

    def _tell(self, kind: str, fields: dict[str, Any]) -> None:
        count = self._told.get(kind, 0)
        if count < _FEW:
            self._told[kind] = count + 1
            self._probe.record("compile", {"step": self._probe.steps.index, "kind": kind, **fields})


def leave_us_out(dynamo: Any) -> None:
    """Have Dynamo pass over our functions and what they call. They run between those that it compiles: it would
    compile them, too, and guard on what changes in every step.
    """
    core: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    skip = dynamo.skip_code
    if hasattr(core, "_FrameExecStrategy"):  # torch 2.7 and later
        strategy = core._FrameExecStrategy(core._FrameAction.SKIP, core._FrameAction.SKIP)
        skip = lambda code: dynamo.set_code_exec_strategy(code, strategy)  # noqa: E731
    package = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.startswith(package) and not name.startswith(f"{package}.overrides"):
            for code in _codes(vars(module)):
                if code.co_name in CALLS_THE_PROGRAM:
                    dynamo.skip_code(code)
                else:
                    skip(code)


def _codes(names: Any) -> Iterator[CodeType]:
    for value in list(names.values()):
        if isinstance(value, FunctionType):
            yield from _nested(value.__code__)
        elif isinstance(value, type) and value.__module__ == names.get("__name__"):
            yield from _codes(vars(value))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _nested(inner)
