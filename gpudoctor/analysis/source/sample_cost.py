"""What a loader does for each item: file reads, decoding, tokenising, augmentation, found in the source.

Cheap steps (indexing, `torch.tensor`, stacking, padding) are no work: a Python loop with those keeps up with
most training steps. What counts is what takes a tenth of a millisecond or more for one item.
"""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.sample_syntax import (
    CHEAP_TRANSFORMS,
    DEAR,
    IN_MEMORY,
    METHODS,
    PARTITIONS,
    PARTS,
    TOKENISES,
    head,
    heavy,
    works,
)
from gpudoctor.analysis.source.syntax import last_name, nodes, walk
from gpudoctor.lang import say
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.source import Call, ClassInfo, Script, Source

_DEPTH = 4
"""Calls that are followed from an item: `__getitem__`, a loader of its class, a reader's method, its helper."""


@frozen
class ItemWork:
    """One piece of work done for every item (or every batch, in a collate function)."""

    what: str
    """A clause, `reads an image file`."""
    call: str
    """The call that does it, as written or resolved."""
    span: SourceSpan
    light: bool = False
    """True for work of some tens of microseconds: converting a small image that is in memory already."""
    iterable: bool = False
    """Whether it stands in the `__iter__` of an iterable data set, which every worker would run in full."""
    collated: bool = False
    """Whether it is done for a whole batch at once, in a collate function."""

    @property
    def dear(self) -> bool:
        """Whether a batch of it is felt beside any step: what other work takes, the source does not tell."""
        return not self.light and self.what.startswith(DEAR)


@once
def _reader(source: Source) -> "_Reader":
    return _Reader(source)


def item_work(source: Source, loader: Loader) -> tuple[ItemWork, ...]:
    """The work that one loader does for each item, in the process that draws from it when it has no workers."""
    return _reader(source).loader(loader)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self._calls = {call.node: (script, call) for script in source.scripts for call in script.calls}
        self._classes = {name: (script, info) for script in source.scripts for name, info in script.classes.items()}
        functions = ((s, node) for s in source.scripts for node in nodes(s, ast.FunctionDef, ast.AsyncFunctionDef))
        self._functions: dict[ast.AST, Script] = {node: script for script, node in functions}
        names = {node: f"{info.name}." for _, info in self._classes.values() for node in info.methods.values()}
        self._by_name = {
            (script.path, names.get(node, "") + getattr(node, "name", "")): node  # type: ignore[call-overload]
            for node, script in self._functions.items()
        }
        self._known: dict[ast.AST, tuple[ItemWork, ...]] = {}
        self._bodies: dict[tuple[ast.AST, bool], list[ItemWork]] = {}

    def loader(self, loader: Loader) -> tuple[ItemWork, ...]:
        """The work of one loader, found once; the engines of a script all draw from the same training sets."""
        key = loader.script.tree if loader.engine else loader.call.node
        if key not in self._known:
            self._bodies = {}
            unique = {(work.span.path, work.span.line, work.what): work for work in self._of_loader(loader)}
            self._known[key] = tuple(unique.values())
        return self._known[key]

    def _of_loader(self, loader: Loader) -> Iterator[ItemWork]:
        script, calls, names = loader.script, [(loader.script, loader.call)], ("dataset", "collate_fn")
        if loader.engine:
            names = ("train_dataset", "data_collator")
            own = any(item.arg == "train_dataset" for call in script.calls for item in call.node.keywords)
            calls = [(home, call) for home in ((script,) if own else self.source.scripts) for call in home.calls]
        elif loader.dataset is not None:
            yield from self.dataset(script, loader.dataset)
        for home, call in calls:
            for keyword in call.node.keywords:
                if keyword.arg == names[0] and loader.engine:
                    yield from self.dataset(home, keyword.value)
                elif keyword.arg == names[1]:
                    found = self.function(home, keyword.value, loops=False)
                    yield from (replace(work, collated=True) for work in found)

    def dataset(self, script: Script, value: ast.expr, depth: int = 6) -> list[ItemWork]:
        """Work of a dataset expression."""
        if depth == 0:
            return []
        if isinstance(value, ast.List | ast.Tuple):
            return [work for item in value.elts for work in self.dataset(script, item, depth - 1)]
        if found := [self._of_call(*self._calls[call], depth) for call in self._made(script, value)]:
            return [work for works in found for work in works]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            return self.dataset(script, value.func.value, depth - 1)  # ds.shuffle().select()
        inner = value.value if isinstance(value, ast.Subscript | ast.Starred) else None
        return self.dataset(script, inner, depth - 1) if inner is not None else []

    def _made(self, script: Script, value: ast.expr) -> list[ast.Call]:
        """The calls that may make what an expression gives, those left out that the defaults keep from running."""
        return [call for call in script.thing(value).made if call in self._calls and self._runs(call)]

    def _of_call(self, script: Script, call: Call, depth: int) -> list[ItemWork]:
        if call.method in PARTITIONS and call.node.args:
            return self.dataset(script, call.node.args[0], depth - 1)
        if call.name.startswith("torchvision.datasets."):
            return self._vision(script, call)
        owner = self._class_of(call)
        return self._items(*owner) if owner is not None else []

    def _class_of(self, call: Call) -> tuple[Script, ClassInfo] | None:
        """The program's class that a call makes."""
        return self._classes.get(call.runs.rpartition(".")[0] or call.runs) or self._classes.get(call.method)

    def _runs(self, node: ast.Call) -> bool:
        """Whether the defaults let a call run."""
        found = self._calls.get(node)
        return found is None or not any(guard.never for guard in found[1].guards)

    def function(self, script: Script, value: ast.expr, *, loops: bool = True) -> list[ItemWork]:
        """Work of a function that is given by name, as a lambda, a partial or a callable object."""
        if isinstance(value, ast.Lambda):
            inner = [node for node in walk(value.body) if isinstance(node, ast.Call)]
            return [work for node in inner for work in self._call_work(script, node)]
        if isinstance(value, ast.Call) and last_name(value.func) == "partial" and value.args:
            return self.function(script, value.args[0], loops=loops)
        node = script.thing(value).defined
        if node in self._functions and node is not None:
            return self._body(self._functions[node], node, loops)
        found: list[ItemWork] = []
        for call in self._made(script, value):
            owned = self._class_of(self._calls[call][1])
            if owned is not None and "__call__" in owned[1].methods:
                found += self._body(owned[0], owned[1].methods["__call__"], loops)
        return found

    def _vision(self, script: Script, call: Call) -> list[ItemWork]:
        if call.method not in IN_MEMORY:
            return [ItemWork(what=say("reads and decodes an image file"), call=call.name, span=call.span)]
        transform = next((k.value for k in call.node.keywords if k.arg in {"transform", "transforms"}), None)
        if transform is None:
            return []
        parts = [transform, *script.thing(transform).made]
        called = {last_name(node.func) for part in parts for node in walk(part) if isinstance(node, ast.Call)}
        if costly := sorted(name for name in called - CHEAP_TRANSFORMS if name[:1].isupper()):
            what = say("augments an image ({costly})", costly=", ".join(costly[:3]))
            return [ItemWork(what=what, call=call.name, span=call.span)]
        return [ItemWork(what=say("converts an image that is in memory"), call=call.name, span=call.span, light=True)]

    def _items(self, script: Script, info: ClassInfo) -> list[ItemWork]:
        for name in ("__getitem__", "__getitems__", "__iter__"):
            if name in info.methods:
                method, iterable = info.methods[name], name == "__iter__"
                found = self._body(script, method, True)
                return [replace(work, iterable=iterable) for work in found]
        return []

    def _body(self, script: Script, function: ast.AST, loops: bool, depth: int = _DEPTH) -> list[ItemWork]:
        key = (function, loops)
        if key in self._bodies or depth == 0:
            return self._bodies.get(key, [])
        found = self._bodies[key] = []
        for node in walk(function):
            if isinstance(node, ast.For | ast.While) and loops and works(node):
                found.append(ItemWork(what="runs a Python loop", call=head(node), span=script.span(node)))
            if not isinstance(node, ast.Call) or not self._runs(node):
                continue
            found += self._call_work(script, node)
            _, call = self._calls.get(node, (script, None))
            callee = self._by_name.get((call.home, call.runs)) if call is not None else None
            if callee is not None:
                found += self._body(self._functions[callee], callee, loops, depth - 1)
        return found

    def _call_work(self, script: Script, node: ast.Call) -> Iterator[ItemWork]:
        _, call = self._calls.get(node, (script, None))
        name, method, written = call.name if call else ast.unparse(node.func), last_name(node.func), ""
        known = heavy(name)
        if known:
            what: str | None = known
        elif call is not None and call.runs:
            return  # the program's own function: what it does is read there
        elif method == "apply_chat_template" and ast.unparse(node).endswith("tokenize=False)"):
            return  # it fills the template in: text, no tokens
        elif call is not None and "Tokenizer" in str(call.receiver_type):
            what, written = ("tokenises text" if call.name.endswith(TOKENISES) else None), ast.unparse(node.func)
        elif method in METHODS:
            what, written = METHODS[method], method
        elif method == "convert" and node.args and isinstance(node.args[0], ast.Constant):
            what, written = say("decodes an image"), method
        elif name.startswith(("torch.", "numpy.")):
            return
        else:
            what = next((words for part, words in PARTS if part in method.lower()), None)
            written = ast.unparse(node.func)
        if what is not None:
            yield ItemWork(what=what, call=written or name, span=script.span(node))
