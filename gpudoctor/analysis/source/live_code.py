"""Which functions and classes something names: code that nothing names is run by nobody, as far as was read.

A function runs if the module's own level, or a function that runs, names it: a call, a table, a word in a
string. Of a class that runs, the methods run that something names, and all that Python or a library may
call.
"""

import ast
import re
from collections.abc import Iterable, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.syntax import FunctionNode, children, is_main_guard, is_name, nodes
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
            names = _names(homes[item][0], _inside(item))
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
    definitions = _definitions(script)
    decorated = {
        item.name
        for item, home in definitions.items()
        if home is None
        and item.decorator_list
        and not any(_REGISTERS.search(ast.unparse(part)) for part in item.decorator_list)
    }
    body = [item for item in script.tree.body if item not in definitions and not _lists_names(item)]
    decorators = [part for item in definitions for part in item.decorator_list]
    names = _names(script, [*body, *decorators])
    return names | decorated if names is not None else None


def _lists_names(item: ast.stmt) -> bool:
    """`__all__ = [...]`: what a module offers, used or not."""
    return isinstance(item, ast.Assign) and any(is_name(target, "__all__") for target in item.targets)


def _inside(item: ast.AST) -> list[ast.AST]:
    """What runs with a definition: a function's body, a class's bases and body without its methods."""
    parts = children(item)
    if isinstance(item, ast.ClassDef):
        return [part for part in parts if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    return parts


def _names(script: Script, parts: Iterable[ast.AST]) -> frozenset[str] | None:
    """Names, attributes and words that code holds, by their names at home; None where it may name anything."""
    found: set[str] = set()
    waiting = list(parts)
    while waiting:
        node = waiting.pop()
        waiting += children(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found |= {node.id, script.imports.get(node.id, "").rpartition(".")[2]}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.rpartition(".")[2])
        elif isinstance(node, ast.Call) and _names_anything(script, node):
            return None
    return frozenset(found)


def _names_anything(script: Script, node: ast.Call) -> bool:
    """`globals()[name]`, `getattr(models, args.model)`: any function may be meant."""
    if ast.unparse(node.func).rpartition(".")[2] in _CHOOSES:
        return True
    first = node.args[0] if is_name(node.func, "getattr") and len(node.args) > 1 else None
    return (
        isinstance(first, ast.Name)
        and first.id in script.imports
        and not script.imports[first.id].startswith(("torch.", "torch", "transformers", "numpy", "torchvision"))
        and not isinstance(node.args[1], ast.Constant)
    )
