"""Batches of a class of their own, which `pin_memory` leaves as they are.

torch pins tensors, mappings and sequences of them, and what has a method `pin_memory`; anything else it hands
on untouched (torch.utils.data._utils.pin_memory).
"""

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.analysis.source.device_transfers import Transfer
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.syntax import FunctionNode, is_name, keyword_value, last_name, nodes, parents, walk
from gpudoctor.model.signs.source import ClassInfo, Source

_GRAPH_PACKAGES = ("torch_geometric.",)
"""Packages whose loaders make batches that pin themselves."""
_DEPTH = 3


def is_never_pinned(source: Source, loader: Loader, moves: Sequence[Transfer]) -> bool:
    """Whether a loader's batches are objects that `pin_memory=True` hands on as they are."""
    collate = _collate(loader)
    if collate is None or loader.call.name.startswith(_GRAPH_PACKAGES):
        return False
    made = list(_classes_made(source, collate))
    if made:
        return not any(_pins(source, info) for info in made)
    return any(_moves_in_place(move) for move in moves) and not any(_is_mapping(move) for move in moves)


def _collate(loader: Loader) -> ast.expr | None:
    return keyword_value(loader.call.node, "collate_fn")


def _classes_made(source: Source, value: ast.expr, depth: int = _DEPTH) -> Iterator[ClassInfo]:
    """The program's own classes whose objects a collate function gives."""
    if depth == 0:
        return
    if isinstance(value, ast.Lambda):
        yield from _class_of(source, value.body, None, depth)
        return
    name = last_name(value)
    if isinstance(value, ast.Name | ast.Attribute) and name in _classes(source):
        yield _classes(source)[name]  # `collate_fn=Batch`
        return
    owner = _classes(source).get(last_name(value.value)) if isinstance(value, ast.Attribute) else None
    if owner is not None and name in owner.methods:
        yield from _given(source, owner.methods[name], owner, depth)
    elif isinstance(value, ast.Name):
        found = [
            node
            for script in source.scripts
            for node in nodes(script, ast.FunctionDef)
            if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        if len(found) == 1:
            yield from _given(source, found[0], None, depth)


def _given(source: Source, function: FunctionNode, owner: ClassInfo | None, depth: int) -> Iterator[ClassInfo]:
    for node in walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from _class_of(source, node.value, owner, depth)


def _class_of(source: Source, value: ast.expr, owner: ClassInfo | None, depth: int) -> Iterator[ClassInfo]:
    """The own class that an expression makes an object of: `Batch(items)`, `cls(items)`."""
    if not isinstance(value, ast.Call):
        return
    if owner is not None and is_name(value.func, "cls"):
        yield owner
    else:
        yield from _classes_made(source, value.func, depth - 1)


def _classes(source: Source) -> dict[str, ClassInfo]:
    return {name: info for script in source.scripts for name, info in script.classes.items()}


def _pins(source: Source, info: ClassInfo, depth: int = _DEPTH) -> bool:
    """Whether a class may pin itself or be a container: what cannot be read may be either."""
    if "pin_memory" in info.methods or depth == 0:
        return True
    bases = [
        ast.unparse(base)
        for script in source.scripts
        for node in nodes(script, ast.ClassDef)
        if isinstance(node, ast.ClassDef) and node.name == info.name
        for base in node.bases
    ]
    own = _classes(source)
    return any(
        base != "object" and ((known := own.get(base.rpartition(".")[2])) is None or _pins(source, known, depth - 1))
        for base in bases
    )


def _moves_in_place(move: Transfer) -> bool:
    """Whether a copy's result is dropped: `batch.to(device)` alone changes an object, and no tensor."""
    func = move.call.node.func
    whole = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)
    return whole and isinstance(parents(move.script)[move.call.node], ast.Expr)


def _is_mapping(move: Transfer) -> bool:
    """Whether the program reads the object that is moved by keys: `batch["x"]`, `model(**batch)`."""
    name = move.call.receiver
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and ast.unparse(node.value) == name
        for node in nodes(move.script, ast.Subscript)
    ) or any(
        isinstance(node, ast.keyword) and node.arg is None and ast.unparse(node.value) == name
        for node in nodes(move.script, ast.keyword)
    )
