"""The outermost call of a model, by a replacement of `Module.__call__`; inner modules pay one test each.

The replacement stands in for torch's own `_wrapped_call_impl`, which forwards to `_call_impl`, so it
carries that function's file and lines: Dynamo skips frames of that file (another file would move its
graphs' borders), and tracebacks and warnings read as without us.
"""

from __future__ import annotations

import ast
import dis
import functools
import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, EVALUATION, FORWARD, OWNS
from ..table import OTHER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "forward"

_TEMPLATE = """
def make(_clock, _compiling, _begin, _end):
    def _wrapped_call_impl(self, *args, **kwargs):
        if _clock.deep or _compiling():
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            else:
                return self._call_impl(*args, **kwargs)
        token = _begin(self)
        try:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            else:
                return self._call_impl(*args, **kwargs)
        finally:
            _end(token)
    return _wrapped_call_impl
"""
_OLDER = """
def make(_clock, _compiling, _begin, _end, _original):
    def _call_impl(self, *args, **kwargs):
        if _clock.deep or _compiling():
            return _original(self, *args, **kwargs)
        token = _begin(self)
        try:
            return _original(self, *args, **kwargs)
        finally:
            _end(token)
    return _call_impl
"""
"""For a torch whose `Module.__call__` is another."""


def install(probe: Probe) -> None:
    """Replace `Module.__call__`."""
    guard = probe.guard
    begin, end = _ends(probe)
    parts = (probe.clock, guard.compiling, guard.safely_of(HOOK, begin), guard.safely_of(HOOK, end))
    guard.replace(HOOK, probe.torch.nn.Module, "__call__", lambda original: _replacement(original, parts))


def _ends(probe: Probe) -> tuple[Any, Any]:
    clock, steps, evaluation, models = probe.clock, probe.steps, probe.evaluation, probe.models
    pace = probe.pace
    grad_enabled = probe.torch.is_grad_enabled
    ident = threading.get_ident

    def begin(module: Any) -> int | None:
        if ident() != clock.ident:
            return None
        clock.deep = True
        if clock.light:
            if clock.models.get(id(module)) is module.training and clock.phase == OTHER and grad_enabled():
                now = perf_counter()
                clock.row[OTHER] += now - clock.mark
                clock.mark = now
                clock.phase = FORWARD
                return OTHER
            pace.leave()
        phase = clock.phase
        if OWNS[phase] and phase != EVALUATION:
            return -1
        grad = grad_enabled()
        evaluation.forward(module, grad)
        phase = clock.phase
        if phase == EVALUATION:
            models.called(module, grad, True)
            return -1
        if phase == BACKWARD:  # a checkpointed part is computed again
            return -1
        steps.forward_begins()
        if steps.index < 4 or not models.forwards & 63:
            models.see_autocast()
        models.called(module, grad, False)
        if grad:
            clock.models[id(module)] = module.training
        return clock.switch(FORWARD)

    def end(token: int | None) -> None:
        if token is None:
            return
        clock.deep = False
        if token >= 0:
            error = sys.exc_info()[1]
            if error is not None:
                clock.passed(error)
            clock.switch(token)

    return begin, end


def _replacement(original: Any, parts: tuple[Any, ...]) -> Any:
    code = getattr(original, "__code__", None)
    if code is not None and code.co_names == ("_compiled_call_impl", "_call_impl"):
        function = _made(_TEMPLATE, original)(*parts)
    else:
        function = _made(_OLDER, original)(*parts, original)
    functools.update_wrapper(function, original)
    del function.__wrapped__
    return function


def _made(template: str, original: Any) -> Any:
    """The template's `make`, in the original's module and file, its statements on the original's lines."""
    tree = ast.parse(template)
    code = getattr(original, "__code__", None)
    if code is None:
        file, scope = "<gpudoctor>", {"__name__": __name__}
    else:
        file, scope = code.co_filename, original.__globals__
        lines = [line for _, line in dis.findlinestarts(code) if line is not None]
        first = code.co_firstlineno
        calls = {"_compiled_call_impl": lines[1] if len(lines) > 1 else first, "_call_impl": lines[-1]}
        _place(tree, first)
        for node in ast.walk(tree):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                target = node.value.func
                line = calls.get(target.attr, lines[-1]) if isinstance(target, ast.Attribute) else lines[-1]
                _place(node, line)
    names: dict[str, Any] = {}
    exec(compile(tree, file, "exec"), scope, names)
    return names["make"]


def _place(tree: ast.AST, line: int) -> None:
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.excepthandler)):
            node.lineno = node.end_lineno = line
