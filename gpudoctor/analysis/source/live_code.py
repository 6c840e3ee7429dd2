"""Which functions and classes something names: code that nothing names is run by nobody, as far as was read.

A function runs if the module's own level, or a function that runs, names it: a call, a table, a word in a
string. Of a class that runs, the methods run that something names, and all that Python or a library may
call.
"""

import ast
import re
from collections.abc import Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.syntax import FunctionNode, is_main_guard, is_name, nodes
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Script, Source

_REGISTERS = re.compile(r"regist", re.IGNORECASE)
_CHOOSES = ("globals", "eval", "exec", "import_module")
"""Functions whose result may be anything, by a text that only a run has."""

Definition = FunctionNode | ast.ClassDef


def may_run(source: Source, span: SourceSpan) -> bool:
    """Whether a line may run, as far as names tell; a nested function does if the outer one does."""
    running = _running(source)
    script = next((item for item in source.scripts if item.path == span.path), None)
    if running is None or script is None:
        return True
    return all(
        item in running
        for item in _definitions(script)
        if item.lineno <= span.line <= (item.end_lineno or item.lineno)
    )


@once
def _running(source: Source) -> frozenset[Definition] | None:
    """The functions and classes that something names; None where a text of a run may name any."""
    homes: dict[Definition, tuple[Script, ast.ClassDef | None]] = {
        item: (script, home) for script in source.scripts for item, home in _definitions(script).items()
    }
    own = frozenset(item.name for item in homes if isinstance(item, ast.ClassDef))
    named: set[str] = set()
    found: set[Definition] = set()
    for script in source.scripts:
        names = _own_level(script)
        if names is None:
            return None
        named |= names
        if script.entry and not _starts(script):  # a module for others: they may call all of it
            named |= {item.name for item, home in _definitions(script).items() if home is None}
    while True:
        new = [
            item
            for item, (_, home) in homes.items()
            if item not in found
            and (home is None or home in found)
            and (item.name in named or (home is not None and _called_by_others(item.name, home, own)))
        ]
        if not new:
            return frozenset(found)
        for item in new:
            found.add(item)
            names = _named_by(homes[item][0])[item]
            if names is None:
                return None
            named |= names


def _called_by_others(name: str, home: ast.ClassDef, own: frozenset[str]) -> bool:
    """Whether Python or a library may call a method by itself."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in home.bases} - {"object", "ABC"}
    return (name.startswith("__") and name.endswith("__")) or not bases <= own


@once
def _definitions(script: Script) -> Mapping[Definition, ast.ClassDef | None]:
    """The functions and classes of the module's own level, and the methods of the classes with their class."""
    found: dict[Definition, ast.ClassDef | None] = {}
    for item in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        outer = [part for part in enclosing(script, item) if isinstance(part, (*FUNCTIONS, ast.ClassDef))]
        if not outer:
            found[item] = None
        elif len(outer) == 1 and isinstance(outer[0], ast.ClassDef) and not isinstance(item, ast.ClassDef):
            found[item] = outer[0]
    return found


@once
def _starts(script: Script) -> bool:
    """Whether a script does something when it is run, and is no module for others."""
    return any(
        (isinstance(item, ast.If) and is_main_guard(item.test))
        or isinstance(item, ast.For | ast.While | ast.With)
        or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Call))
        for item in script.tree.body
    )


@once
def _own_level(script: Script) -> frozenset[str] | None:
    """What a module names as it is imported; decorators may call what they decorate, a registry does not."""
    decorated = {
        item.name
        for item, home in _definitions(script).items()
        if home is None
        and item.decorator_list
        and not any(_REGISTERS.search(ast.unparse(part)) for part in item.decorator_list)
    }
    names = _named_by(script)[None]
    return names | decorated if names is not None else None


@once
def _named_by(script: Script) -> Mapping[Definition | None, frozenset[str] | None]:
    """The names, attributes and words of each definition, and of the module's own level (None).

    They are the names at home, where an import renames. None where a definition may name anything. A class has
    what stands outside of its methods.
    """
    owners: dict[int, Definition | None] = {}
    for item in _definitions(script):  # methods come behind their class
        owners |= dict.fromkeys(range(item.lineno, (item.end_lineno or item.lineno) + 1), item)
    for statement in script.tree.body:
        if _lists_names(statement):
            owners |= dict.fromkeys(range(statement.lineno, (statement.end_lineno or 0) + 1), _NOBODY)
    found: dict[Definition | None, set[str]] = {item: set() for item in (None, _NOBODY, *_definitions(script))}
    for name in nodes(script, ast.Name):
        if isinstance(name.ctx, ast.Load):
            home = script.imports.get(name.id, "").rpartition(".")[2]
            found[owners.get(name.lineno)] |= {name.id, home}
    for attribute in nodes(script, ast.Attribute):
        found[owners.get(attribute.lineno)].add(attribute.attr)
    for constant in nodes(script, ast.Constant):
        if isinstance(constant.value, str):
            found[owners.get(constant.lineno)].add(constant.value.rpartition(".")[2])
    anything = {owners.get(call.lineno) for call in nodes(script, ast.Call) if _names_anything(script, call)}
    return {item: None if item in anything else frozenset(names) for item, names in found.items()}


_NOBODY = ast.ClassDef(name="", bases=[], keywords=[], body=[], decorator_list=[])
"""Holds what a module offers in `__all__`, used or not."""


def _lists_names(item: ast.stmt) -> bool:
    """`__all__ = [...]`."""
    return isinstance(item, ast.Assign) and any(is_name(target, "__all__") for target in item.targets)


def _names_anything(script: Script, node: ast.Call) -> bool:
    """`globals()[name]`, `getattr(models, args.model)`: any function may be meant."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in _CHOOSES:
        return True
    first = node.args[0] if called == "getattr" and len(node.args) > 1 else None
    return (
        isinstance(first, ast.Name)
        and first.id in script.imports
        and not script.imports[first.id].startswith(("torch.", "torch", "transformers", "numpy", "torchvision"))
        and not isinstance(node.args[1], ast.Constant)
    )
