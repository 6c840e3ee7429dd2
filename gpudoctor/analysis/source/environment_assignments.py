"""Environment variables that scripts set themselves: `os.environ["NCCL_DEBUG"] = "INFO"`.

A view of the source sign, for every check that asks about a variable.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.syntax import is_main_guard, is_name
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Script, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One place where a script sets a variable for itself and its children."""

    name: str
    value: str | None
    """The text; None when only a run can tell."""
    node: ast.expr
    """The value as written."""
    span: SourceSpan
    default: bool
    """True when a value from outside wins: `setdefault`, or under `if "X" not in os.environ`."""
    conditional: bool
    """Under a condition, so nobody knows whether it happens."""


def assignments(source: Source) -> tuple[Assignment, ...]:
    """Every such place, in order of script and line."""
    found: list[Assignment] = []
    for script in source.scripts:
        if "environ" in script.text or "putenv" in script.text:
            found += _Reader(script).read()
    return tuple(found)


def assigned(source: Source | None, name: str) -> Assignment | None:
    """The last unconditional place that sets a variable, or None."""
    places = assignments(source) if source is not None else ()
    sure = [item for item in places if item.name == name and not item.conditional]
    return sure[-1] if sure else None


class _Reader:
    """Walks one script, remembering conditions."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def read(self) -> list[Assignment]:
        return list(self._block(self._script.tree.body, conditional=False, default=False))

    def _block(self, body: list[ast.stmt], *, conditional: bool, default: bool) -> Iterator[Assignment]:
        for statement in body:
            yield from self._own(statement, conditional=conditional, default=default)
            inside, as_default = conditional, default
            if isinstance(statement, ast.If | ast.While):
                if self._tests_absence(statement.test):
                    as_default = True
                elif not is_main_guard(statement.test):
                    inside = True
            for field in ("body", "orelse", "finalbody"):
                block = getattr(statement, field, [])
                other = field == "orelse" and isinstance(statement, ast.If)
                yield from self._block(block, conditional=inside or other, default=as_default)
            for handler in getattr(statement, "handlers", []) + getattr(statement, "cases", []):
                yield from self._block(handler.body, conditional=True, default=default)

    def _own(self, statement: ast.stmt, *, conditional: bool, default: bool) -> Iterator[Assignment]:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Subscript) and self._is_environ(target.value):
                    yield from self._one(target.slice, statement.value, statement, conditional, default)
        elif isinstance(statement, ast.AugAssign) and self._is_environ(statement.target):
            yield from self._mapping(statement.value, conditional, default)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield from self._call(statement.value, statement, conditional, default)

    def _call(self, call: ast.Call, statement: ast.stmt, conditional: bool, default: bool) -> Iterator[Assignment]:
        function = call.func
        if not isinstance(function, ast.Attribute):
            return
        if self._dotted(function) == "os.putenv" and len(call.args) == 2:
            yield from self._one(call.args[0], call.args[1], statement, conditional, default)
        if not self._is_environ(function.value):
            return
        if function.attr == "setdefault" and len(call.args) == 2:
            yield from self._one(call.args[0], call.args[1], statement, conditional, True)
        if function.attr == "update":
            for argument in call.args:
                yield from self._mapping(argument, conditional, default)
            for keyword in call.keywords:
                if keyword.arg:
                    name = ast.Constant(value=keyword.arg)
                    yield from self._one(name, keyword.value, statement, conditional, default)

    def _mapping(self, value: ast.expr, conditional: bool, default: bool) -> Iterator[Assignment]:
        if isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                if key is not None:
                    yield from self._one(key, item, item, conditional, default)

    def _one(
        self, key: ast.expr, value: ast.expr, place: ast.stmt | ast.expr, conditional: bool, default: bool
    ) -> Iterator[Assignment]:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Assignment(
                name=key.value,
                value=_text(value),
                node=value,
                span=self._script.span(place),
                default=default,
                conditional=conditional,
            )

    def _is_environ(self, node: ast.expr) -> bool:
        return self._dotted(node) == "os.environ"

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            head = self._dotted(node.value)
            return f"{head}.{node.attr}" if head else ""
        return self._script.imports.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _tests_absence(self, test: ast.expr) -> bool:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn):
            return self._is_environ(test.comparators[0])
        return False


def _text(value: ast.expr) -> str | None:
    if isinstance(value, ast.Call) and is_name(value.func, "str"):
        value = value.args[0] if len(value.args) == 1 else value
    if isinstance(value, ast.Constant) and isinstance(value.value, str | int | float):
        return str(value.value)
    return None
