"""Samplers of the user's own: items fetched for their length, batches that are begun and never yielded."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, names_in, walk
from gpudoctor.model.signs.source import ClassInfo, Script

_DATA = ("dataset", "data_source", "data", "ds")


def own_samplers(script: Script) -> Iterator[ClassInfo]:
    """Classes that extend one of torch's samplers, or are named as one and can be iterated."""
    for info in script.classes.values():
        based = any("Sampler" in base for base in info.bases)
        if based or (info.name.endswith("Sampler") and "__iter__" in info.methods):
            yield info


def decoded_for_length(script: Script) -> Iterator[tuple[str, ast.AST, bool]]:
    """Samplers that fetch `dataset[i]` for every i to measure it: class, place, and whether in each epoch."""
    for info in own_samplers(script):
        for name in ("__iter__", "__init__"):
            function = info.methods.get(name)
            place = _measured(function) if function is not None else None
            if place is not None:
                yield info.name, place, name == "__iter__"
                break


def _measured(function: ast.AST) -> ast.AST | None:
    for node in walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and node.args:
            measured: ast.AST = node.args[0]
        elif is_attribute(node, "shape"):
            measured = node.value
        elif is_method_call(node, "size", "numel"):
            measured = node.func.value
        else:
            continue
        loop = _loop_around(function, node)
        if loop is None:
            continue
        for part in walk(measured):
            if (
                isinstance(part, ast.Subscript)
                and _is_data(part.value)
                and ast.unparse(part.slice) in names_in(loop.target)
            ):
                return node
        over = loop.iter
        named = ast.unparse(measured).partition("[")[0] in names_in(loop.target)
        if named and _is_data(over) and isinstance(measured, ast.Subscript | ast.Name):
            return node
    return None


def _loop_around(function: ast.AST, node: ast.AST) -> ast.For | ast.comprehension | None:
    for part in walk(function):
        if isinstance(part, ast.For) and any(item is node for child in part.body for item in walk(child)):
            return part
        if not isinstance(part, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp):
            continue
        if any(item is node for item in walk(part)):
            return part.generators[0]
    return None


def _is_data(node: ast.expr) -> bool:
    """`self.dataset`, `dataset`, `data_source`: the set itself, not a list of lengths."""
    return ast.unparse(node).rpartition(".")[2].lstrip("_") in _DATA


def lost_batches(script: Script) -> Iterator[tuple[str, ast.For, str]]:
    """Batch samplers whose loop fills a list up to a budget and whose last, unfinished list is lost."""
    for info in own_samplers(script):
        function = info.methods.get("__iter__")
        if function is None or "drop_last" in ast.unparse(function):
            continue
        for statement in function.body:
            batch = _filled(statement) if isinstance(statement, ast.For) else ""
            if batch and isinstance(statement, ast.For):
                rest = function.body[function.body.index(statement) + 1 :]
                if not any(_names(item, batch) for item in (*rest, *statement.orelse)):
                    yield info.name, statement, batch


def _filled(loop: ast.For) -> str:
    """The list that a loop appends to, yields under a condition, and begins anew."""
    appended = {ast.unparse(node.func.value) for node in walk(loop) if is_method_call(node, "append")}
    yielded = {
        ast.unparse(node.value)
        for branch in walk(loop)
        if isinstance(branch, ast.If) and not _counted(branch.test)
        for node in walk(branch)
        if isinstance(node, ast.Yield) and node.value is not None
    }
    renewed = {ast.unparse(target) for node in walk(loop) for target in _renewed(node)}
    return next(iter(sorted(appended & yielded & renewed)), "")


def _counted(test: ast.expr) -> bool:
    """`len(batch) == size`: batches of a fixed number, whose tail is left out on purpose."""
    return isinstance(test, ast.Compare) and ast.unparse(test.left).startswith("len(")


def _renewed(node: ast.AST) -> Iterator[ast.expr]:
    """Targets of `batch = []`, of `batch, tokens = [], 0` the first."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(node.value, ast.List):
                yield target
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                yield from (name for name, value in pairs if isinstance(value, ast.List))


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) == name for part in walk(node))
