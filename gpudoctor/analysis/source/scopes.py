"""Names in the scopes of a loop's pass.

A scope is a chain of call sites (`Event.via`). A parameter stands for the argument at its call site, and `self`
in a method for the object it was called on, so `meter.update(loss)` is seen through.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from gpudoctor.analysis.source.control_flow import Function, function_of
from gpudoctor.analysis.source.syntax import walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Event, Loop, Source

Scope: TypeAlias = tuple[SourceSpan, ...]
Key: TypeAlias = tuple[Scope, str]


CALLED = "__call__"
"""The method of a call of an object itself: a module, whose `forward` it runs."""


class Scopes:
    """Who owns a name, and what a parameter stands for, in one pass of a loop."""

    def __init__(self, source: Source, loop: Loop) -> None:
        self._scripts = {script.path: script for script in source.scripts}
        self._placed: dict[tuple[Scope, SourceSpan], list[Call]] = {}
        self._functions: dict[Scope, Function | None] = {}
        for event in loop.events:
            if event.via not in self._functions:
                self._functions[event.via] = self._function(event)
            if event.call is not None:
                self._placed.setdefault((event.via, event.span), []).append(event.call)
        self._sites = {via: self._site(via) for via in self._functions if via}
        self._keys: dict[tuple[Scope, str], Key] = {}

    def _function(self, event: Event) -> Function | None:
        script = self._scripts.get(event.span.path)
        if script is None:
            return None
        return function_of(script, event.node)

    def _site(self, via: Scope) -> Call | None:
        """The call that leads into a scope; of several that start at one place, the one of that name."""
        function = self._functions.get(via)
        name = getattr(function, "name", "")
        found = self._placed.get((via[:-1], via[-1]), [])
        named = (call for call in found if call.method == name)
        # `model(x).sum()`: two calls start there, and forward is what the first one runs.
        called = (call for call in found if name == "forward" and call.method == CALLED)
        return next(named, None) or next(called, found[-1] if found else None)

    def key(self, text: str, via: Scope) -> Key:
        """The name in the scope that owns it."""
        if not via:
            return (), text
        found = self._keys.get((via, text))
        if found is None:
            found = self._keys[via, text] = self._owned(text, via)
        return found

    def _owned(self, text: str, via: Scope) -> Key:
        root = re.split(r"[.\[]", text, maxsplit=1)[0]
        site = self._sites.get(via)
        if root == "self" and site is not None and (owner := _owner(site)):
            return self.key(owner + text[len("self") :], via[:-1])
        function = self._functions.get(via)
        if function is not None and root not in owned_names(function):
            return (), text
        return via, text

    def argument(self, name: str, via: Scope) -> tuple[ast.expr, Scope] | None:
        """What a parameter stands for at its call site, with the scope of that expression."""
        function = self._functions.get(via) if via else None
        site = self._sites.get(via)
        if function is None or site is None:
            return None
        names = parameters(function)
        for keyword in site.node.keywords:
            if keyword.arg == name and name in names:
                return keyword.value, via[:-1]
        shift = 1 if names[:1] in (["self"], ["cls"]) else 0
        if name in names[shift:]:
            position = names.index(name) - shift
            if position < len(site.node.args):
                return site.node.args[position], via[:-1]
        return None

    def bindings(self) -> Iterator[tuple[Key, ast.expr, Scope]]:
        """Every parameter with its argument."""
        for via, function in self._functions.items():
            for name in parameters(function) if function is not None and via else ():
                found = self.argument(name, via)
                if found is not None:
                    yield (via, name), *found


def _owner(site: Call) -> str:
    """What `self` is in the method that a call runs: its receiver, or the object itself that is called."""
    written = ast.unparse(site.node.func)
    return written if site.method == CALLED and written.replace(".", "").isidentifier() else site.receiver


def parameters(function: Function) -> list[str]:
    """Names of a function's parameters, in order."""
    given = function.args
    return [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def handed(function: Function, call: ast.Call) -> dict[str, ast.expr] | None:
    """What a call gives for a function's parameters, by their names; `self` and `cls` are nobody's to give.

    None where `*` or `**` hides which parameter gets what.
    """
    if any(item.arg is None for item in call.keywords) or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    placed = dict(zip(names, call.args, strict=False))
    return placed | {item.arg: item.value for item in call.keywords if item.arg is not None}


def defaults(function: Function) -> dict[str, ast.expr]:
    """The values that a function's parameters have where a call gives none."""
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args)]
    placed = dict(zip(reversed(names), reversed(given.defaults), strict=False))
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return placed | {item.arg: value for item, value in named if value is not None}


@lru_cache(maxsize=1024)
def owned_names(function: Function) -> frozenset[str]:
    """The names that a function owns: its parameters, and what it stores and does not declare to be outside."""
    nodes = list(walk(function))
    outer = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(parameters(function)) | (stored - outer)
