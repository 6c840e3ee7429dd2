"""Whose class a call builds: a library's own, or the program's, with what it declares and what it extends."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.syntax import FunctionNode, nodes
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Source


@frozen
class Built:
    """The class that a call builds."""

    names: tuple[str, ...]
    """Resolved names of the libraries' classes that it is or extends; empty for one of the program alone."""
    own: tuple[ast.ClassDef, ...] = ()
    """The program's classes on the way to them, the called one first."""

    @property
    def declared(self) -> frozenset[str]:
        """Fields and constructor arguments that the program's own classes declare."""
        return frozenset(name for node in self.own for name in _declares(node))

    def of(self, roots: frozenset[str], classes: frozenset[str]) -> str:
        """The class of a library that it is or extends: the first of these names below these roots; else ""."""
        for name in self.names:
            if name.partition(".")[0] in roots and name.rpartition(".")[2] in classes:
                return name
        return ""


def built(call: Call) -> Built:
    """The class that a call builds, the program's own subclasses followed through its modules."""
    if call.builds is not None:
        return Built(names=tuple(base for base in call.builds.bases if "." in base), own=call.builds.lineage)
    return Built(names=() if call.name[:1] in "?." or "." not in call.name else (call.name,))


def _declares(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id
        elif isinstance(item, ast.Assign):
            yield from (target.id for target in item.targets if isinstance(target, ast.Name))
        elif isinstance(item, FunctionNode) and item.name == "__init__":
            given = item.args
            yield from (each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))


@once
def declared_names(source: Source) -> frozenset[str]:
    """Names that the program itself gives to settings: fields of its classes, options of its command line, and
    keys that it reads from a mapping by name."""
    found: set[str] = set()
    for script in source.scripts:
        found |= script.arguments.keys()
        for node in nodes(script, ast.ClassDef):
            found |= {name for name in _declares(node) if name != "self"}
        for part in nodes(script, ast.Subscript):
            if isinstance(part.slice, ast.Constant) and isinstance(part.slice.value, str):
                found.add(part.slice.value)
        for call in script.calls:
            first = call.node.args[0] if call.node.args else None
            if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                continue
            if call.method in {"get", "pop", "getattr", "setdefault"}:
                found.add(first.value)
            elif call.method == "add_argument":
                found |= {
                    item.value.lstrip("-").replace("-", "_")
                    for item in call.node.args
                    if isinstance(item, ast.Constant) and isinstance(item.value, str)
                }
    return frozenset(found)


def imports_any(source: Source, roots: frozenset[str]) -> bool:
    """Whether any script imports one of these libraries."""
    return any(name.partition(".")[0] in roots for script in source.scripts for name in script.imports.values())
