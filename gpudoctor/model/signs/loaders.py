"""The data loaders of a program, followed from where they are built to the loops that draw from them.

A view of the source sign, for every check that asks about loaders: how many workers, pinned or not, and
whether a training loop consumes it. It follows names through assignments, calls, returns, attributes and
wrappers (`tqdm`, `accelerator.prepare`), and says UNKNOWN where that ends.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gpudoctor.model.signs.source import Call, Known, Literal, Loop, LoopRole, Script, Source, Value

LOADER_CLASSES = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
        "monai.data.DataLoader",
    }
)
"""Classes that take torch's loader arguments by the same names."""

ARGUMENT_CLASSES = frozenset(
    {
        "transformers.TrainingArguments",
        "transformers.Seq2SeqTrainingArguments",
        "trl.SFTConfig",
        "trl.DPOConfig",
    }
)
"""Classes whose `dataloader_*` fields configure a loader that an engine builds."""

_WRAPPERS = (
    "iter",
    "enumerate",
    "tqdm",
    "trange",
    "zip",
    "cycle",
    "islice",
    "prepare",
    "reversed",
    "list",
    "next",
)
_WRAPPER_PARTS = ("load", "fetch", "cycle", "infinite", "repeat", "progress", "track", "prepare")
_HOLDER = r"(?:loader|dataloader|dl|iter|data|set|s)?$"
_TRAINING = re.compile(r"(?:train|training|trn)" + _HOLDER)
_EVALUATION = re.compile(
    r"(?:val|valid|validation|eval|evaluation|test|testing|dev|predict|prediction|infer|inference)" + _HOLDER
)


class LoaderRole(Enum):
    """Who draws from a loader."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loader:
    """One place where a loader is built, or where an engine is told how to build it."""

    script: Script
    call: Call
    names: tuple[str, ...]
    """Names that hold it, `train_loader`, `self.loader`."""
    loops: tuple[tuple[Script, Loop], ...]
    """Loops that draw from it."""
    role: LoaderRole
    engine: bool = False
    """True for an engine's arguments (`TrainingArguments`): keywords are `dataloader_*`."""

    def argument(self, keyword: str, default: Literal = None) -> Value:
        """A loader argument by torch's keyword; the default when it is not passed, `Unknown` when untold."""
        name = f"dataloader_{keyword}" if self.engine else keyword
        value = self.call.argument(name, None if self.engine else _POSITIONS.get(keyword))
        return Known(value=default, origin="default of DataLoader") if value is None else value

    @property
    def workers(self) -> Value:
        """num_workers; torch's default is 0."""
        return self.argument("num_workers", 0)

    @property
    def pinned(self) -> Value:
        """pin_memory; off by default in torch, on in transformers' Trainer."""
        return self.argument("pin_memory", self.engine)

    @property
    def dataset(self) -> ast.expr | None:
        """The dataset's expression."""
        if self.engine:
            return None
        for keyword in self.call.node.keywords:
            if keyword.arg == "dataset":
                return keyword.value
        first = self.call.node.args[0] if self.call.node.args else None
        return None if isinstance(first, ast.Starred) else first

    @property
    def label(self) -> str:
        """How messages name it: the name that holds it, or the class that builds it."""
        return self.names[0] if self.names else self.call.method


# The order of torch.utils.data.DataLoader's positional parameters.
_POSITIONS = {
    "dataset": 0, "batch_size": 1, "shuffle": 2, "sampler": 3, "batch_sampler": 4, "num_workers": 5,
    "collate_fn": 6, "pin_memory": 7, "drop_last": 8, "timeout": 9, "worker_init_fn": 10,
    "multiprocessing_context": 11,
}  # fmt: skip


_LAST: list[tuple[Source, tuple[Loader, ...]]] = []
"""The last program asked about, since several checks ask about the same one; never more than one."""


def loaders(source: Source) -> tuple[Loader, ...]:
    """Every loader of the program, in order of script and line."""
    if not source.scripts:
        return ()
    if _LAST and _LAST[0][0] is source:
        return _LAST[0][1]
    flow = _Flow(source)
    flow.follow()
    found = []
    for index, (script, call) in enumerate(flow.built):
        names = tuple(dict.fromkeys(name for _, _, name in flow.keys_of(index)))
        loops = tuple(flow.loops_of(index))
        role = _role(flow, index, script, call, names, loops)
        engine = call.name in ARGUMENT_CLASSES
        found.append(Loader(script=script, call=call, names=names, loops=loops, role=role, engine=engine))
    _LAST[:] = [(source, tuple(found))]
    return tuple(found)


def _role(
    flow: "_Flow",
    index: int,
    script: Script,
    call: Call,
    names: tuple[str, ...],
    loops: tuple[tuple[Script, Loop], ...],
) -> LoaderRole:
    roles = {loop.role for _, loop in loops}
    if LoopRole.TRAINING in roles or index in flow.fitted or call.name in ARGUMENT_CLASSES:
        return LoaderRole.TRAINING
    if LoopRole.EVALUATION in roles:
        return LoaderRole.EVALUATION
    words = [call.function.rpartition(".")[2], *names]
    if any(_says(word, _TRAINING) for word in words):
        return LoaderRole.TRAINING
    if any(_says(word, _EVALUATION) for word in words) or roles == {LoopRole.OTHER}:
        return LoaderRole.EVALUATION
    alone = sum(1 for other, _ in flow.built if other.path == script.path) == 1
    return LoaderRole.TRAINING if alone and flow.source.trains else LoaderRole.UNKNOWN


def _says(text: str, words: "re.Pattern[str]") -> bool:
    return any(words.match(part) for part in re.split(r"[._]", text.lower()))


_Key = tuple[str, str, str]  # script path, scope, name


class _Flow:
    """Where each loader goes, by a few rounds over assignments, calls and returns until nothing is new."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.built: list[tuple[Script, Call]] = []
        self.fitted: set[int] = set()
        self._holders: dict[_Key, set[int]] = {}
        self._returns: dict[tuple[str, int | None], set[int]] = {}
        self._by_node: dict[int, int] = {}
        self._functions: dict[str, list[tuple[Script, str, ast.FunctionDef | ast.AsyncFunctionDef]]] = {}
        self._statements: list[tuple[Script, str, ast.stmt]] = []
        for script in source.scripts:
            own = {name for name, info in script.classes.items() if LOADER_CLASSES & set(info.bases)}
            for call in script.calls:
                if call.name in LOADER_CLASSES or call.name in ARGUMENT_CLASSES or call.name in own:
                    self._by_node[id(call.node)] = len(self.built)
                    self.built.append((script, call))
            for scope, statement in _statements(script.tree.body, ""):
                self._statements.append((script, scope, statement))
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                    qualified = f"{scope}.{statement.name}" if scope else statement.name
                    self._functions.setdefault(statement.name, []).append((script, qualified, statement))
                    if statement.name == "__init__":
                        owner = scope.rpartition(".")[2]
                        self._functions.setdefault(owner, []).append((script, qualified, statement))

    def follow(self, rounds: int = 6) -> None:
        """Follow every loader; a program that hands a loader through more than six hands is left there."""
        if not self.built:
            return
        for _ in range(rounds):
            before = self._size()
            for script, scope, statement in self._statements:
                self._statement(script, scope, statement)
            if self._size() == before:
                break

    def keys_of(self, index: int) -> Iterator[_Key]:
        """Names that hold one loader."""
        return (key for key, held in self._holders.items() if index in held)

    def loops_of(self, index: int) -> Iterator[tuple[Script, Loop]]:
        """Loops that draw from one loader."""
        for script in self.source.scripts:
            for loop in script.loops:
                if index in self._drawn(script, loop):
                    yield script, loop

    def _drawn(self, script: Script, loop: Loop) -> set[int]:
        drawn: set[int] = set()
        if loop.iterates:
            try:
                drawn |= self._carried(
                    script, loop.function, ast.parse(loop.iterates.strip(), mode="eval").body
                )
            except SyntaxError:  # an iterable that the reader shortened
                return drawn
            for name, index in self._by_node.items():
                own_script, call = self.built[index]
                if own_script is script and call.span.line == loop.span.line and name:
                    drawn.add(index)
        for event in loop.events:
            if event.call is not None and event.call.method == "next" and not event.inner and not event.via:
                for argument in event.call.node.args[:1]:
                    drawn |= self._carried(script, loop.function, argument)
        return drawn

    def _size(self) -> int:
        held = sum(len(indices) for indices in self._holders.values())
        return held + sum(len(indices) for indices in self._returns.values()) + len(self.fitted)

    def _statement(self, script: Script, scope: str, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._assign(script, scope, target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(script, scope, statement.target, statement.value)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            name = scope.rpartition(".")[2]
            if isinstance(statement.value, ast.Tuple):
                for position, element in enumerate(statement.value.elts):
                    self._return(name, position, self._carried(script, scope, element))
            else:
                self._return(name, None, self._carried(script, scope, statement.value))
        for node in _calls(statement):
            self._call(script, scope, node)

    def _return(self, function: str, position: int | None, held: set[int]) -> None:
        if held:
            self._returns.setdefault((function, position), set()).update(held)

    def _assign(self, script: Script, scope: str, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for position, element in enumerate(target.elts):
                self._hold(script, scope, element, self._unpacked(script, scope, value, position))
        else:
            self._hold(script, scope, target, self._carried(script, scope, value))

    def _unpacked(self, script: Script, scope: str, value: ast.expr, position: int) -> set[int]:
        if isinstance(value, ast.Tuple | ast.List):
            return self._carried(script, scope, value.elts[position]) if position < len(value.elts) else set()
        if isinstance(value, ast.Call):
            name = _last(value.func)
            if name == "prepare" and position < len(value.args):  # accelerate gives back what it was given
                return self._carried(script, scope, value.args[position])
            return self._returns.get((name, position), set()) | self._returns.get((name, None), set())
        return self._carried(script, scope, value)

    def _hold(self, script: Script, scope: str, target: ast.expr, held: set[int]) -> None:
        key = _key(script, scope, target)
        if key is not None and held:
            self._holders.setdefault(key, set()).update(held)

    def _call(self, script: Script, scope: str, node: ast.Call) -> None:
        name = _last(node.func)
        arguments: list[tuple[int | str | None, ast.expr]] = list(enumerate(node.args))
        arguments += [(keyword.arg, keyword.value) for keyword in node.keywords]
        for place, value in arguments:
            held = self._carried(script, scope, value)
            if not held:
                continue
            if name == "fit" and place in (1, "train_dataloaders", "train_dataloader"):
                self.fitted |= held
            for other, qualified, function in self._functions.get(name, ()):
                parameter = _parameter(function, place, method="." in qualified)
                if parameter:
                    self._holders.setdefault((other.path, qualified, parameter), set()).update(held)

    def _carried(self, script: Script, scope: str, value: ast.expr) -> set[int]:
        """Loaders that an expression is, holds or wraps."""
        if isinstance(value, ast.Name | ast.Attribute):
            return self._named(script, scope, value)
        parts: list[ast.expr] = []
        if isinstance(value, ast.Call):
            if id(value) in self._by_node:
                return {self._by_node[id(value)]}
            name = _last(value.func)
            wraps = name in _WRAPPERS or any(part in name.lower() for part in _WRAPPER_PARTS)
            parts = list(value.args) if wraps else []
            held = set(self._returns.get((name, None), set()))
            return held.union(*(self._carried(script, scope, part) for part in parts))
        if isinstance(value, ast.IfExp):
            parts = [value.body, value.orelse]
        elif isinstance(value, ast.BoolOp):
            parts = list(value.values)
        elif isinstance(value, ast.Tuple | ast.List):
            parts = list(value.elts)
        elif isinstance(value, ast.Dict):
            parts = list(value.values)
        elif isinstance(value, ast.DictComp):
            parts = [value.value]
        elif isinstance(value, ast.ListComp):
            parts = [value.elt]
        elif isinstance(value, ast.Subscript | ast.Starred):
            parts = [value.value]
        return set().union(*(self._carried(script, scope, part) for part in parts))

    def _named(self, script: Script, scope: str, value: ast.Name | ast.Attribute) -> set[int]:
        if isinstance(value, ast.Attribute):
            key = _key(script, scope, value)
            return self._holders.get(key, set()) if key else set()
        while True:
            held = self._holders.get((script.path, scope, value.id))
            if held or not scope:
                break
            scope = scope.rpartition(".")[0]
        if not held and value.id in script.imports:  # `from data import train_loader`
            module, _, name = script.imports[value.id].rpartition(".")
            for (path, inside, held_name), indices in self._holders.items():
                if not inside and held_name == name and path.endswith(module.rpartition(".")[2] + ".py"):
                    return indices
        return held or set()


def _key(script: Script, scope: str, target: ast.expr) -> _Key | None:
    if isinstance(target, ast.Name):
        return (script.path, scope, target.id)
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        owner = scope.rpartition(".")[0] if target.value.id == "self" else ""
        return (script.path, owner, f"{target.value.id}.{target.attr}")
    if isinstance(target, ast.Subscript):
        return _key(script, scope, target.value)
    return None


def _last(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef, place: int | str | None, *, method: bool
) -> str | None:
    names = [argument.arg for argument in function.args.posonlyargs + function.args.args]
    if method and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    if isinstance(place, int):
        return names[place] if place < len(names) else None
    return place if place in names or place in {item.arg for item in function.args.kwonlyargs} else None


def _statements(body: list[ast.stmt], scope: str) -> Iterator[tuple[str, ast.stmt]]:
    for statement in body:
        yield scope, statement
        inside = scope
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{scope}.{statement.name}" if scope else statement.name
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []), inside)
        for handler in getattr(statement, "handlers", []) + getattr(statement, "cases", []):
            yield from _statements(handler.body, scope)


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Calls in a statement's own expressions, not in the statements of its body."""
    todo: list[ast.AST] = [
        child
        for child in ast.iter_child_nodes(statement)
        if not isinstance(child, ast.stmt | ast.ExceptHandler)
    ]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call):
            yield node
        todo += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.ExceptHandler)
        ]
