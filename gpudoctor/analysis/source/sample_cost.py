"""What a loader does for each item: file reads, decoding, tokenising, augmentation, found in the source.

Cheap steps (indexing, `torch.tensor`, stacking, padding) are no work: a Python loop with those keeps up with
most training steps. What counts is what takes a tenth of a millisecond or more for one item.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpudoctor.analysis.source.built_classes import built, imported_from
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.sample_syntax import (
    CHEAP_TRANSFORMS,
    DEAR,
    IN_MEMORY,
    METHODS,
    PARTITIONS,
    PARTS,
    RANDOM,
    TOKENISES,
    assigned,
    defined,
    elements,
    for_several,
    head,
    heavy,
    is_self,
    optional,
    targets,
    works,
)
from gpudoctor.analysis.source.syntax import FunctionNode, is_attribute, last_name, walk
from gpudoctor.lang import say
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, ClassInfo, Guard, GuardKind, Known, Script, Source

_DEPTH = 4
"""Calls that are followed from an item: `__getitem__`, a loader of its class, a reader's method, its helper."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    several: bool = False
    """Whether it is done for several items at once, outside of the loop that yields them."""
    elements: int | None = None
    """Random numbers drawn for one item, where that is the work and its size is written there."""
    collated: bool = False
    """Whether it is done for a whole batch at once, in a collate function."""
    chosen: bool = False
    """Whether the program may draw from another data set instead, which does no work that could be told."""

    @property
    def dear(self) -> bool:
        """Whether a batch of it is felt beside any step: what other work takes, the source does not tell."""
        return not self.light and self.what.startswith(DEAR)


def _either(found: list[list[ItemWork]]) -> list[ItemWork]:
    """The work of alternatives: what one of them does and another does not is done where that one is chosen."""
    free = any(not work for work in found)
    return [replace(item, chosen=True) if free else item for work in found for item in work]


def _only(script: Script, name: str, found: list[Script]) -> Script | None:
    """The script that a resolved name is from: this one, the only one, or the only one below its module."""
    if script in found:
        return script
    if len(found) > 1:
        found = [item for item in found if imported_from(name, item)]
    return found[0] if len(found) == 1 else None


def _on(guard: Guard) -> bool:
    """Whether the defaults turn a switch on."""
    return guard.kind is GuardKind.SWITCH and isinstance(guard.value, Known) and bool(guard.value.value)


def item_work(source: Source, loader: Loader) -> tuple[ItemWork, ...]:
    """The work that one loader does for each item, in the process that draws from it when it has no workers."""
    if not _LAST or _LAST[0].source is not source:
        _LAST[:] = [_Reader(source)]
    return _LAST[0].work(loader)


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self._calls = {id(call.node): (script, call) for script in source.scripts for call in script.calls}
        self._bodies: dict[tuple[str, str, int, bool], list[ItemWork]] = {}
        self._by_name: dict[str, list[tuple[Script, str, FunctionNode]]] = {}
        for script in source.scripts:
            for found in defined(script, script.tree.body, ""):
                self._by_name.setdefault(found[2].name, []).append(found)
        self._setters = [
            (script, call)
            for script, call in self._calls.values()
            if call.method in {"set_transform", "with_transform"} and call.node.args
        ]
        self._known: dict[int, tuple[ItemWork, ...]] = {}
        self._names: dict[tuple[str, str, str], list[ItemWork]] = {}

    def work(self, loader: Loader) -> tuple[ItemWork, ...]:
        """The work of one loader, found once; the engines of a script all draw from the same training sets."""
        key = id(loader.script) if loader.engine else id(loader.call.node)
        if key not in self._known:
            self._bodies, self._names = {}, {}
            self._known[key] = self.loader(loader)
        return self._known[key]

    def loader(self, loader: Loader) -> tuple[ItemWork, ...]:
        found: list[ItemWork] = []
        script, scope = loader.script, loader.call.function
        if loader.engine:
            for other in self._hands(script):
                for call in other.calls:
                    for keyword in call.node.keywords:
                        if keyword.arg == "train_dataset":
                            found += self.dataset(other, call.function, keyword.value)
                        elif keyword.arg == "data_collator":
                            found += self.collated(other, call.function, keyword.value)
        elif loader.dataset is not None:
            found += self.dataset(script, scope, loader.dataset)
            for keyword in loader.call.node.keywords:
                if keyword.arg == "collate_fn":
                    found += self.collated(script, scope, keyword.value)
        unique = {(work.span.path, work.span.line, work.what): work for work in found}
        return tuple(unique.values())

    def collated(self, script: Script, scope: str, value: ast.expr) -> list[ItemWork]:
        """Work of a collate function."""
        return [replace(work, collated=True) for work in self.function(script, scope, value, collate=True)]

    def _hands(self, script: Script) -> tuple[Script, ...]:
        """The scripts whose data an engine gets that a script sets up: its own where that hands any over."""
        own = any(item.arg == "train_dataset" for call in script.calls for item in call.node.keywords)
        return (script,) if own else self.source.scripts

    def dataset(self, script: Script, scope: str, value: ast.expr, depth: int = 6) -> list[ItemWork]:
        """Work of a dataset expression."""
        if depth == 0:
            return []
        found: list[ItemWork] = []
        if isinstance(value, ast.Subscript | ast.Starred):
            return self.dataset(script, scope, value.value, depth)
        if isinstance(value, ast.List | ast.Tuple):
            return [work for item in value.elts for work in self.dataset(script, scope, item, depth - 1)]
        if isinstance(value, ast.IfExp):
            return _either([self.dataset(script, scope, item, depth) for item in (value.body, value.orelse)])
        if isinstance(value, ast.Name | ast.Attribute):
            name = (script.path, scope, ast.unparse(value))
            if name not in self._names:
                self._names[name] = []  # a name that is made of itself ends here
                self._names[name] = self._named(script, scope, value, depth)
            return self._names[name]
        if not isinstance(value, ast.Call) or id(value) not in self._calls:
            return []
        _, call = self._calls[id(value)]
        if call.method in PARTITIONS and value.args:
            return self.dataset(script, scope, value.args[0], depth - 1)
        if call.method in {"with_transform", "set_transform"} and value.args:
            return self.function(script, scope, value.args[0])
        if call.name.startswith("torchvision.datasets."):
            return self._vision(script, scope, call)
        owner = self._made(script, call)
        if owner is not None:
            return self._items(*owner, call)
        for other, qualified, function in self._meant(script, call):
            backs = [
                node.value
                for node in walk(function)
                if isinstance(node, ast.Return) and node.value is not None and self._runs(node.value)
            ]
            found += _either([self.dataset(other, qualified, back, depth - 1) for back in backs])
        if isinstance(value.func, ast.Attribute) and not found and call.name.startswith("?"):
            found += self.dataset(script, scope, value.func.value, depth - 1)  # ds.shuffle().select()
        return found

    def _named(self, script: Script, scope: str, value: ast.Name | ast.Attribute, depth: int) -> list[ItemWork]:
        """Work of what a name stands for; what only wraps the name again is no data set beside it."""
        wanted = ast.unparse(value)
        given: list[list[ItemWork]] = []
        wrapped: list[ItemWork] = []
        for other, inside, item in self._assignments(script, scope, value):
            if item is value or not self._runs(item):
                continue
            work = self.dataset(other, inside, item, depth - 1)
            around = other is script and any(
                isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) == wanted for part in walk(item)
            )
            if around:
                wrapped += work
            elif not (isinstance(item, ast.Constant) and item.value is None):
                given.append(work)
        return self._set_transforms(value) + _either(given) + wrapped

    def _runs(self, value: ast.expr) -> bool:
        """Whether the defaults let an expression run."""
        found = self._calls.get(id(value))
        return found is None or not any(guard.never for guard in found[1].guards)

    def _switched_off(self, script: Script, loop: ast.For | ast.While) -> bool:
        """Whether the defaults keep a loop from running: a condition around it says so of the calls in it, and
        of a loop without any those beside it."""
        if any(guard.never and guard.line < loop.lineno for guard in self._guards(loop)):
            return True
        inner: ast.AST = loop
        for above in enclosing(script, loop):
            if isinstance(above, FUNCTIONS):
                return False
            if isinstance(above, ast.If):
                mine, other = (above.body, above.orelse) if inner in above.body else (above.orelse, above.body)
                here = [guard for item in mine for guard in self._guards(item) if guard.line == above.lineno]
                there = [guard for item in other for guard in self._guards(item) if guard.line == above.lineno]
                if any(guard.never for guard in here) or any(_on(guard) for guard in there):
                    return True
            inner = above
        return False

    def _guards(self, node: ast.AST) -> list[Guard]:
        """The conditions of the calls in a node."""
        records = [self._calls.get(id(part)) for part in walk(node) if isinstance(part, ast.Call)]
        return [guard for record in records if record is not None for guard in record[1].guards]

    def _made(self, script: Script, call: Call) -> tuple[Script, ClassInfo] | None:
        """The program's class that a call makes; None where its name does not settle which one."""
        own = built(self.source, script, call).own
        found = [item for item in self.source.scripts if call.method in item.classes]
        if own:
            found = [item for item in found if any(node is own[0] for node in walk(item.tree))]
        one = _only(script, call.name, found)
        return (one, one.classes[call.method]) if one is not None else None

    def _meant(self, script: Script, call: Call) -> list[tuple[Script, str, FunctionNode]]:
        """The functions that a call may be of; none where several scripts have one of that name."""
        named = self._functions(call.method)
        one = _only(script, call.name, list({id(item[0]): item[0] for item in named}.values()))
        return [item for item in named if item[0] is one]

    def function(self, script: Script, scope: str, value: ast.expr, *, collate: bool = False) -> list[ItemWork]:
        """Work of a function that is given by name, as a lambda, a partial or a callable object."""
        if isinstance(value, ast.Lambda):
            return [
                work
                for node in walk(value.body)
                if isinstance(node, ast.Call)
                for work in self._call_work(script, node, None)
            ]
        if isinstance(value, ast.Call):
            name = last_name(value.func)
            if name == "partial" and value.args:
                return self.function(script, scope, value.args[0], collate=collate)
            owner = self._class(name)
            if owner is not None and "__call__" in owner[1].methods:
                return self._body(owner[0], f"{owner[1].name}.__call__", owner[1].methods["__call__"], owner[1],
                                  None, loops=not collate)  # fmt: skip
            return []
        found: list[ItemWork] = []
        for other, qualified, function in self._functions(last_name(value)):
            found += self._body(other, qualified, function, None, None, loops=not collate)
        if not found and isinstance(value, ast.Name):
            for other, inside, assigned in self._assignments(script, scope, value):
                if isinstance(assigned, ast.Call):
                    found += self.function(other, inside, assigned, collate=collate)
        return found

    def _vision(self, script: Script, scope: str, call: Call) -> list[ItemWork]:
        transform = next((k.value for k in call.node.keywords if k.arg in {"transform", "transforms"}), None)
        steps = set() if transform is None else self._transform_steps(script, scope, transform)
        if call.method not in IN_MEMORY:
            return [ItemWork(what=say("reads and decodes an image file"), call=call.name, span=call.span)]
        if transform is None:
            return []
        costly = sorted(steps - CHEAP_TRANSFORMS)
        if costly:
            what = say("augments an image ({costly})", costly=", ".join(costly[:3]))
            return [ItemWork(what=what, call=call.name, span=call.span)]
        return [ItemWork(what=say("converts an image that is in memory"), call=call.name, span=call.span, light=True)]

    def _transform_steps(
        self, script: Script, scope: str, value: ast.expr, depth: int = 4, seen: set[str] | None = None
    ) -> set[str]:
        """Names of the classes that make up a transform; each name is followed once."""
        seen = set() if seen is None else seen
        steps: set[str] = set()
        owners = {id(node.value) for node in walk(value) if isinstance(node, ast.Attribute)}
        for node in walk(value):
            if isinstance(node, ast.Call):
                steps.add(last_name(node.func))
                for _, _, function in self._functions(last_name(node.func)):
                    if depth:
                        for inner in walk(function):
                            if isinstance(inner, ast.Call) and "transforms" in self._name(inner):
                                steps.add(last_name(inner.func))
            elif isinstance(node, ast.Name) and depth and id(node) not in owners:  # not `opt` of `opt.size`
                name = f"{script.path}:{scope}:{node.id}"
                followed = () if name in seen else self._assignments(script, scope, node)
                seen.add(name)
                for other, inside, assigned in followed:
                    steps |= self._transform_steps(other, inside, assigned, depth - 1, seen)
        return {step for step in steps if step[:1].isupper()}

    def _items(self, script: Script, info: ClassInfo, construction: Call) -> list[ItemWork]:
        for name in ("__getitem__", "__getitems__", "__iter__"):
            if name in info.methods:
                method = info.methods[name]
                found = self._body(script, f"{info.name}.{name}", method, info, construction)
                iterable = name == "__iter__"
                return [
                    replace(work, iterable=iterable, several=iterable and for_several(method, work.span.line))
                    for work in found
                ]
        for base in info.bases:
            owner = self._class(base.rpartition(".")[2])
            if owner is not None and owner[1] is not info:
                return self._items(*owner, construction)
            if base.startswith("torchvision.datasets."):
                library = base.rpartition(".")[2]
                if library not in IN_MEMORY and library != "VisionDataset":
                    return [ItemWork(what=say("reads and decodes an image file"), call=base, span=info.span)]
        return []

    def _body(
        self,
        script: Script,
        qualified: str,
        function: ast.AST,
        owner: ClassInfo | None,
        construction: Call | None,
        *,
        loops: bool = True,
        depth: int = _DEPTH,
    ) -> list[ItemWork]:
        key = (script.path, qualified, id(construction), loops)
        if key in self._bodies or depth == 0:
            return self._bodies.get(key, [])
        found = self._bodies[key] = []
        unused = optional(owner, construction)
        for node in walk(function):
            if isinstance(node, ast.For | ast.While) and loops and works(node) and not self._switched_off(script, node):
                found.append(
                    ItemWork(what="runs a Python loop", call=head(node), span=script.span(node))
                )  # fmt: skip
            if not isinstance(node, ast.Call) or not self._runs(node):
                continue
            if is_attribute(node.func, *unused):
                continue
            found += self._call_work(script, node, owner)
            name = last_name(node.func)
            if isinstance(node.func, ast.Attribute) and owner is not None and is_self(node.func.value):
                if name in owner.methods:
                    inside = f"{owner.name}.{name}"
                    found += self._body(
                        script, inside, owner.methods[name], owner, construction, loops=loops, depth=depth - 1
                    )
            elif isinstance(node.func, ast.Name):
                for other, inside, callee in self._functions(name):
                    found += self._body(other, inside, callee, None, None, loops=loops, depth=depth - 1)
            elif (held := self._held(node)) is not None and name in held[1].methods:
                other, info = held
                inside = f"{info.name}.{name}"
                found += self._body(other, inside, info.methods[name], info, None, loops=loops, depth=depth - 1)
        return found

    def _held(self, node: ast.Call) -> tuple[Script, ClassInfo] | None:
        """The program's own class whose method is called, of an object that is held: `self.reader.read(i)`."""
        record = self._calls.get(id(node))
        name = record[1].receiver_class if record is not None else None
        return self._class(name) if name is not None else None

    def _call_work(self, script: Script, node: ast.Call, owner: ClassInfo | None) -> Iterator[ItemWork]:
        name = self._name(node)
        method = last_name(node.func)
        span = script.span(node)
        if method == "apply_chat_template" and any(
            keyword.arg == "tokenize" and ast.unparse(keyword.value) == "False" for keyword in node.keywords
        ):
            return  # it fills the template in: text, no tokens
        known = heavy(name)
        if known:
            yield ItemWork(what=known, call=name, span=span)
            return
        held = self._held(node)
        if held is not None and method in held[1].methods:
            return  # the program's own method: what it does is read there
        record = self._calls.get(id(node))
        if record is not None and "Tokenizer" in str(record[1].receiver_type):
            if record[1].name.endswith(TOKENISES):
                yield ItemWork(what="tokenises text", call=ast.unparse(node.func), span=span)
            return
        if method in METHODS:
            yield ItemWork(what=METHODS[method], call=method, span=span)
        elif method == "convert" and node.args and isinstance(node.args[0], ast.Constant):
            yield ItemWork(what=say("decodes an image"), call=method, span=span)
        elif method == "encode" and isinstance(node.func, ast.Attribute) and "tok" in ast.unparse(node.func.value):
            yield ItemWork(what="tokenises text", call=ast.unparse(node.func), span=span)
        elif method in RANDOM and name.startswith(("torch.", "numpy.")):
            size = elements(node)
            if size is not None:
                yield ItemWork(what=say("draws random numbers"), call=name, span=span, elements=size)
        else:
            local = owner is not None and method in owner.methods
            if not local and not self._class(method) and not self._functions(method):
                for part, what in PARTS:
                    if part in method.lower() and not name.startswith(("torch.", "numpy.")):
                        yield ItemWork(what=what, call=ast.unparse(node.func), span=span)
                        break

    def _name(self, node: ast.Call) -> str:
        known = self._calls.get(id(node))
        return known[1].name if known else ast.unparse(node.func)

    def _class(self, name: str) -> tuple[Script, ClassInfo] | None:
        for script in self.source.scripts:
            if name in script.classes:
                return script, script.classes[name]
        return None

    def _functions(self, name: str) -> list[tuple[Script, str, FunctionNode]]:
        return self._by_name.get(name, [])

    def _assignments(
        self, script: Script, scope: str, value: ast.Name | ast.Attribute
    ) -> Iterator[tuple[Script, str, ast.expr]]:
        """Expressions assigned to a name in its scope, at module level, or passed for a parameter."""
        wanted = ast.unparse(value)
        bare = value.id if isinstance(value, ast.Name) else ""
        for function, statement in assigned(script.tree.body, ""):
            visible = function == scope or not function or bool(scope.startswith(function + "."))
            if isinstance(value, ast.Attribute):
                visible = function.rpartition(".")[0] == scope.rpartition(".")[0]
            if visible and statement.value is not None and wanted in targets(statement):
                yield script, function, statement.value
        name = scope.rpartition(".")[2]
        for other, qualified, definition in self._functions(name) if bare else ():
            if qualified != scope:
                continue
            names = [item.arg for item in definition.args.args]
            if bare not in names:
                continue
            place = names.index(bare) - (1 if names[:1] == ["self"] else 0)
            called = name if name != "__init__" else scope.split(".")[-2] if "." in scope else name
            for caller in self.source.scripts:
                for call in caller.calls:
                    if call.method == called and other.path:
                        passed = [k.value for k in call.node.keywords if k.arg == bare]
                        passed += call.node.args[place : place + 1]
                        yield from ((caller, call.function, item) for item in passed)

    def _set_transforms(self, value: ast.Name | ast.Attribute) -> list[ItemWork]:
        found = []
        for script, call in self._setters:
            if call.receiver.split("[")[0] == ast.unparse(value):
                found += self.function(script, call.function, call.node.args[0])
        return found


_LAST: list[_Reader] = []
"""The reader of the last program asked about, since several checks ask about the same one."""
