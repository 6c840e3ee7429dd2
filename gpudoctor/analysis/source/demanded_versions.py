"""The versions of a package that a program demands when it starts: `assert torch.__version__[0] == "1"`."""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax import called_name, is_method_call, nodes
from gpudoctor.model.signs.project import Asked
from gpudoctor.model.signs.source import Script, Source

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PARSERS = frozenset({"parse", "Version", "LooseVersion", "StrictVersion", "parse_version", "str", "V"})
_VERSION = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class _Read:
    """A package's version as an expression reads it."""

    package: str
    places: int | None
    """How many leading numbers of it are read; None for all."""


@once
def demanded_versions(source: Source, path: str) -> tuple[Asked, ...]:
    """What the program of a file demands of its packages' versions, by an assert or an `if` that raises.

    Only what runs whenever the program starts counts: nothing in a function, a class, a loop or a try.
    """
    scripts = {script.path: script for script in source.scripts if script.path == path}
    for program in training_programs(source):
        if path in {script.path for script in program.scripts}:
            scripts |= {script.path: script for script in program.scripts}
    return tuple(asked for script in scripts.values() for asked in _demands(script))


@once
def _demands(script: Script) -> tuple[Asked, ...]:
    if "__version__" not in script.text:
        return ()
    found = []
    for node in nodes(script, ast.Assert, ast.If):
        if isinstance(node, ast.If) and not _ends(node.body):
            continue
        if any(
            isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.Try, ast.For, ast.If)) for above in enclosing(script, node)
        ):
            continue
        for package, wanted in _wanted(script, node.test, holds=isinstance(node, ast.Assert)):
            folder = os.path.dirname(script.path)
            found.append(Asked(name=package, wanted=wanted, path=script.path, line=node.lineno, folder=folder))
    return tuple(found)


def _ends(body: list[ast.stmt]) -> bool:
    """Whether the last statement ends the program."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    return isinstance(last, ast.Expr) and called_name(last.value) in {"exit", "quit", "_exit"}


def _wanted(script: Script, test: ast.expr, *, holds: bool) -> Iterator[tuple[str, str]]:
    """Package and specifier of what a test says if it holds, or if it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _wanted(script, test.operand, holds=not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from _wanted(script, value, holds=holds)
    elif is_method_call(test, "startswith") and len(test.args) == 1 and holds:
        read, beginning = _read(script, test.func.value), _text(test.args[0])
        if read is not None and read.places is None and beginning:
            yield from _specifier(_Read(read.package, len(_parts(beginning))), "==", beginning)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        sign = _SIGNS.get(type(test.ops[0]), "")
        left, right = test.left, test.comparators[0]
        read, other = _read(script, left), _text(right)
        if read is None:
            read, other, sign = _read(script, right), _text(left), _MIRROR.get(sign, sign)
        if read is not None and other and sign:
            yield from _specifier(read, sign if holds else _OPPOSITE[sign], other)


def _specifier(read: _Read, sign: str, other: str) -> Iterator[tuple[str, str]]:
    parts = _parts(other)
    if not parts:
        return
    if read.places is None or sign in {"<", ">="}:
        yield read.package, f"{sign}{'.'.join(map(str, parts))}"
    elif len(parts) == read.places and sign in {"==", "!="}:
        yield read.package, f"{sign}{'.'.join(map(str, parts))}.*"
    elif len(parts) == read.places:  # a major version of at most 1 is below 2
        above = ".".join(map(str, (*parts[:-1], parts[-1] + 1)))
        yield read.package, f"{'<' if sign == '<=' else '>='}{above}"


def _parts(text: str) -> tuple[int, ...]:
    found = _VERSION.match(text)
    return tuple(map(int, found.group().split("."))) if found else ()


def _read(script: Script, node: ast.expr) -> _Read | None:
    """What an expression reads of a package's version; None for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="__version__"):
            package = script.imports.get(name, "")
            return _Read(package, None) if package.isidentifier() else None
        case ast.Call(args=[inner]) if called_name(node) in _PARSERS:
            read = _read(script, inner)
            return read if read is not None and read.places is None else None
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _read(script, inner)
        case ast.Subscript(value=value, slice=ast.Constant(value=0)):
            whole = value.func.value if is_method_call(value, "split") else value
            read = _read(script, whole)
            return _Read(read.package, 1) if read is not None and read.places is None else None
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=ast.Constant(value=int() as end), step=None)):
            read = _read(script, value)
            # Three letters are "1.7" and, of 1.10, "1.1": they tell the first number for sure.
            return _Read(read.package, (end + 1) // 2) if read is not None and read.places is None else None
        case _:
            return None


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() | int() | float() as value) if not isinstance(value, bool):
            return str(value)
        case ast.Call(args=[inner]) if called_name(node) in _PARSERS | {"int"}:
            return _text(inner)
        case _:
            return ""
