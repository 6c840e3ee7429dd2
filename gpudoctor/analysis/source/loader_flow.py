"""How loaders travel through a program: names, calls, returns, attributes and wrappers followed."""

import ast
from collections.abc import Iterable, Iterator

from gpudoctor.analysis.source.control_flow import enclosing, loop_node
from gpudoctor.analysis.source.syntax import (
    FunctionNode,
    LoopNode,
    last_name,
    nodes,
    parents,
    statements_by_scope,
    walk,
)
from gpudoctor.analysis.source.untaken_branches import may_reach
from gpudoctor.model.signs.source import Call, Loop, LoopRole, Script, Source

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
    {"transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig", "trl.DPOConfig"}
)
"""Classes whose `dataloader_*` fields configure a loader that an engine builds."""

_WRAPPERS = ("iter", "enumerate", "tqdm", "trange", "zip", "cycle", "islice", "prepare", "reversed", "list", "next")
_WRAPPER_PARTS = ("load", "fetch", "cycle", "infinite", "repeat", "progress", "track", "prepare")

_Key = tuple[str, str, str]  # script path, scope, name


class Flow:
    """Where each loader goes, by a few rounds over assignments, calls and returns until nothing is new."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.built: list[tuple[Script, Call]] = []
        self.fitted: set[int] = set()
        self._holders: dict[_Key, set[int]] = {}
        self._returns: dict[tuple[str, int | None], set[int]] = {}
        self._fresh: list[_Key] = []
        self._draws: list[tuple[Script, Loop, set[int]]] | None = None
        self._by_node: dict[int, int] = {}
        self._functions: dict[str, list[tuple[Script, str, FunctionNode]]] = {}
        self._bound: dict[_Key, dict[int, list[ast.stmt]]] = {}
        """The statements by which a name of a scope gets each loader."""
        self._stores: dict[_Key, list[ast.stmt]] = {}
        """Every statement that gives a name of a scope a value."""
        self._statements: list[tuple[Script, str, ast.stmt, set[str], list[ast.Call]]] = []
        for script in source.scripts:
            own = {name for name, info in script.classes.items() if LOADER_CLASSES & set(info.bases)}
            for call in script.calls:
                if call.name in LOADER_CLASSES or call.name in ARGUMENT_CLASSES or call.name in own:
                    self._by_node[id(call.node)] = len(self.built)
                    self.built.append((script, call))
        if not self.built:
            return
        for script in source.scripts:
            own_parts = _own(script)
            for scope, statement in statements_by_scope(script.tree.body):
                for name in _assigned(statement):
                    self._stores.setdefault((script.path, scope, name), []).append(statement)
                words, calls = own_parts.get(statement, _NOTHING)
                if words:
                    self._statements.append((script, scope, statement, words, calls))
                if isinstance(statement, FunctionNode):
                    qualified = f"{scope}.{statement.name}" if scope else statement.name
                    self._functions.setdefault(statement.name, []).append((script, qualified, statement))
                    if statement.name == "__init__":
                        owner = scope.rpartition(".")[2]
                        self._functions.setdefault(owner, []).append((script, qualified, statement))

    def follow(self, rounds: int = 6) -> None:
        """Follow every loader; a program that hands a loader through more than six hands is left there."""
        if not self.built:
            return
        built = {last_name(call.node.func) for _, call in self.built}  # as imported: `DataLoader as Feed`
        for _ in range(rounds):
            before = self._size()
            active = built | {key[2].rpartition(".")[2] for key in self._holders} | {key[0] for key in self._returns}
            for script, scope, statement, words, calls in self._statements:
                if words & active:
                    self._statement(script, scope, statement, calls)
                    active |= {key[2].rpartition(".")[2] for key in self._fresh}
                    self._fresh.clear()
            if self._size() == before:
                break

    def keys_of(self, index: int) -> Iterator[_Key]:
        """Names that hold one loader."""
        return (key for key, held in self._holders.items() if index in held)

    def loops_of(self, index: int) -> Iterator[tuple[Script, Loop]]:
        """Loops that draw from one loader."""
        if self._draws is None:
            self._draws = [
                (script, loop, drawn)
                for script in self.source.scripts
                for loop in script.loops
                if (drawn := self._drawn(script, loop))
            ]
        return ((script, loop) for script, loop, drawn in self._draws if index in drawn)

    def _drawn(self, script: Script, loop: Loop) -> set[int]:
        drawn: set[int] = set()
        if loop.iterates:
            head = loop_node(script, loop)
            try:
                iterable = ast.parse(loop.iterates.strip(), mode="eval").body
            except SyntaxError:  # an iterable that the reader shortened
                return drawn
            drawn |= self._carried(script, loop.function, iterable, head)
            for name, index in self._by_node.items():
                own_script, call = self.built[index]
                if own_script is script and call.span.line == loop.span.line and name:
                    drawn.add(index)
        plain = loop.role is LoopRole.OTHER or loop.role is LoopRole.EPOCHS
        now_and_then: set[int] = set()
        for event in () if plain else loop.events:
            if event.inner or event.via or not event.every_pass:
                continue  # a batch of another loader now and then is not what the loop trains on
            if event.call is not None and event.call.method == "next":
                for argument in event.call.node.args[:1]:
                    held = self._carried(script, loop.function, argument, event.call.node)
                    if event.every_pass:
                        drawn |= held
                    else:
                        now_and_then |= held
        # A test batch on every hundredth step: the loop's own batches are another loader's.
        return drawn or now_and_then

    def _size(self) -> int:
        held = sum(len(indices) for indices in self._holders.values())
        return held + sum(len(indices) for indices in self._returns.values()) + len(self.fitted)

    def _statement(self, script: Script, scope: str, statement: ast.stmt, calls: list[ast.Call]) -> None:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._assign(script, scope, target, statement.value, statement)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(script, scope, statement.target, statement.value, statement)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            name = scope.rpartition(".")[2]
            if isinstance(statement.value, ast.Tuple):
                for position, element in enumerate(statement.value.elts):
                    self._return(name, position, self._carried(script, scope, element, statement))
            else:
                self._return(name, None, self._carried(script, scope, statement.value, statement))
        for node in calls:
            self._call(script, scope, node)

    def _return(self, function: str, position: int | None, held: set[int]) -> None:
        if held:
            self._returns.setdefault((function, position), set()).update(held)

    def _assign(self, script: Script, scope: str, target: ast.expr, value: ast.expr, statement: ast.stmt) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for position, element in enumerate(target.elts):
                held = self._unpacked(script, scope, value, position, statement)
                self._hold(script, scope, element, held, statement)
        else:
            self._hold(script, scope, target, self._carried(script, scope, value, statement), statement)

    def _unpacked(self, script: Script, scope: str, value: ast.expr, position: int, at: ast.stmt) -> set[int]:
        if isinstance(value, ast.Tuple | ast.List):
            known = position < len(value.elts)
            return self._carried(script, scope, value.elts[position], at) if known else set()
        if isinstance(value, ast.Call):
            name = last_name(value.func)
            if name == "prepare" and position < len(value.args):  # accelerate gives back what it was given
                return self._carried(script, scope, value.args[position], at)
            return self._made(name, position, value) | self._made(name, None, value)
        return self._carried(script, scope, value, at)

    def _hold(self, script: Script, scope: str, target: ast.expr, held: set[int], statement: ast.stmt) -> None:
        key = _key(script, scope, target)
        if key is None or not held:
            return
        if isinstance(target, ast.Name):
            by = self._bound.setdefault(key, {})
            for index in held:
                if statement not in by.setdefault(index, []):
                    by[index].append(statement)
        self._add(key, held)

    def _add(self, key: _Key, held: set[int]) -> None:
        self._holders.setdefault(key, set()).update(held)
        self._fresh.append(key)

    def _call(self, script: Script, scope: str, node: ast.Call) -> None:
        name = last_name(node.func)
        arguments: list[tuple[int | str | None, ast.expr]] = list(enumerate(node.args))
        arguments += [(keyword.arg, keyword.value) for keyword in node.keywords]
        for place, value in arguments:
            held = self._carried(script, scope, value, node)
            if not held:
                continue
            if name == "fit" and place in (1, "train_dataloaders", "train_dataloader"):
                self.fitted |= held
            for other, qualified, function in self._functions.get(name, ()):
                parameter = _parameter(function, place, method="." in qualified)
                if parameter:
                    self._add((other.path, qualified, parameter), held)

    def _carried(self, script: Script, scope: str, value: ast.expr, at: ast.AST | None) -> set[int]:
        """Loaders that an expression is, holds or wraps, where it stands at a place."""
        if isinstance(value, ast.Name | ast.Attribute):
            return self._named(script, scope, value, at)
        parts: list[ast.expr] = []
        if isinstance(value, ast.Call):
            if id(value) in self._by_node:
                return {self._by_node[id(value)]}
            name = last_name(value.func)
            wraps = name in _WRAPPERS or any(part in name.lower() for part in _WRAPPER_PARTS)
            parts = list(value.args) if wraps else []
            held = self._made(name, None, value)
            return held.union(*(self._carried(script, scope, part, at) for part in parts))
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
        return set().union(*(self._carried(script, scope, part, at) for part in parts))

    def _made(self, name: str, position: int | None, site: ast.Call) -> set[int]:
        """Loaders that a call of a function gives back: those of the branches that its words lead to."""
        held = self._returns.get((name, position), set())
        if len(held) < 2:
            return set(held)
        functions = {
            (script.path, qualified): function for script, qualified, function in self._functions.get(name, ())
        }
        return {index for index in held if self._may_make(functions, index, site)}

    def _may_make(self, functions: dict[tuple[str, str], FunctionNode], index: int, site: ast.Call) -> bool:
        script, call = self.built[index]
        function = functions.get((script.path, call.function))
        return function is None or may_reach(function, script, call, site)

    def _named(self, script: Script, scope: str, value: ast.Name | ast.Attribute, at: ast.AST | None) -> set[int]:
        if isinstance(value, ast.Attribute):
            key = _key(script, scope, value)
            return self._holders.get(key, set()) if key else set()
        own, held = (script.path, scope, value.id), set[int]()
        while True:
            held = self._holders.get((script.path, scope, value.id), set())
            if held or not scope:
                break
            scope = scope.rpartition(".")[0]
        if held and at is not None and own == (script.path, scope, value.id):
            return {index for index in held if self._there(script, own, index, at)}
        if not held and value.id in script.imports:  # `from data import train_loader`
            module, _, name = script.imports[value.id].rpartition(".")
            for (path, inside, held_name), indices in self._holders.items():
                if not inside and held_name == name and path.endswith(module.rpartition(".")[2] + ".py"):
                    return indices
        return held

    def _there(self, script: Script, key: _Key, index: int, at: ast.AST) -> bool:
        """Whether a name may hold one loader at a place of its own scope: some statement that gives it comes
        before, and nothing in between always gives the name another value."""
        given = self._bound.get(key, {}).get(index, ())
        if not given:
            return True  # a parameter, or a target that is not followed by order
        stores = [other for other in self._stores.get(key, ()) if other not in given]
        return any(may_hold_at(script, statement, stores, at) for statement in given)


def _assigned(statement: ast.stmt) -> set[str]:
    """Names that a statement gives a value to."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    parts = [part for target in targets for part in walk(target)]
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _key(script: Script, scope: str, target: ast.expr) -> _Key | None:
    if isinstance(target, ast.Name):
        return (script.path, scope, target.id)
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        owner = scope.rpartition(".")[0] if target.value.id == "self" else ""
        return (script.path, owner, f"{target.value.id}.{target.attr}")
    if isinstance(target, ast.Subscript):
        return _key(script, scope, target.value)
    return None


def _parameter(function: FunctionNode, place: int | str | None, *, method: bool) -> str | None:
    names = [argument.arg for argument in function.args.posonlyargs + function.args.args]
    if method and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    if isinstance(place, int):
        return names[place] if place < len(names) else None
    return place if place in names or place in {item.arg for item in function.args.kwonlyargs} else None


_STATEMENTS = (ast.stmt, ast.ExceptHandler)
_NOTHING: tuple[set[str], list[ast.Call]] = (set(), [])


def _own(script: Script) -> dict[ast.AST, tuple[set[str], list[ast.Call]]]:
    """For each statement the words and calls of its own expressions, not of the statements of its body."""
    found: dict[ast.AST, tuple[set[str], list[ast.Call]]] = {}
    above = parents(script)
    for node in nodes(script, ast.Call, ast.Name, ast.Attribute):
        holder = above[node]
        while not isinstance(holder, _STATEMENTS):
            holder = above[holder]
        words, calls = found.setdefault(holder, (set(), []))
        if isinstance(node, ast.Call):
            calls.append(node)
        else:
            words.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


_THROUGH = (ast.With, ast.AsyncWith)
"""Blocks that always run when they are met."""


def may_hold_at(script: Script, given: ast.stmt, others: Iterable[ast.stmt], at: ast.AST) -> bool:
    """Whether what one assignment gives a name may be there at a place of the same function.

    It is not where the place comes first and no loop leads back to it, and not where another assignment to the
    name always runs in between. `others` are the name's other assignments.
    """
    around = [at, *enclosing(script, at)]
    if _starts(at) <= _starts(given) and given not in around:
        return any(isinstance(node, LoopNode) and node in around for node in enclosing(script, given))
    return not any(
        _starts(given) < _starts(other)
        and _starts(other) < _starts(at)
        and other not in around
        and _always(script, other, around)
        for other in others
    )


def _always(script: Script, statement: ast.stmt, around: list[ast.AST]) -> bool:
    """Whether a statement has always run when a later place, with what is around it, is reached."""
    block: ast.AST = statement
    for above in enclosing(script, statement):
        if any(part in around for part in _siblings(above, block)):
            return True
        if not isinstance(above, _THROUGH):
            return False
        block = above
    return False


def _siblings(above: ast.AST, block: ast.AST) -> list[ast.stmt]:
    """The statements of the list that holds one."""
    for name in ("body", "orelse", "finalbody"):
        found = getattr(above, name, None)
        if isinstance(found, list) and block in found:
            return found
    return []


def _starts(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
