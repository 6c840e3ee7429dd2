"""What a loader's `worker_init_fn` seeds its workers with, and where their items then draw."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.built_classes import built
from gpudoctor.analysis.source.control_flow import Function, enclosing
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.origins import construction
from gpudoctor.analysis.source.syntax import assigned_values, is_name, keyword_value, nodes, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Script, Source

_NUMPY, _PYTHON, _TORCH = "numpy.random.", "random.", "torch."
_SEEDS = {
    "numpy.random.seed": (_NUMPY,),
    "random.seed": (_PYTHON,),
    "torch.manual_seed": (_TORCH,),
    "transformers.set_seed": (_NUMPY, _PYTHON, _TORCH),
    "accelerate.utils.set_seed": (_NUMPY, _PYTHON, _TORCH),
    "lightning.seed_everything": (_NUMPY, _PYTHON, _TORCH),
    "lightning.pytorch.seed_everything": (_NUMPY, _PYTHON, _TORCH),
    "pytorch_lightning.seed_everything": (_NUMPY, _PYTHON, _TORCH),
}
"""Functions that seed generators of the process, and where the draws of these are."""
NO_DRAWS = frozenset(
    {"seed", "default_rng", "RandomState", "Generator", "Random", "SystemRandom", "SeedSequence", "get_state",
     "set_state", "getstate", "setstate", "PCG64"}
)  # fmt: skip
"""What a module of random numbers has beside draws from its own generator."""
_TORCH_DRAWS = frozenset(
    {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like", "randn_like"}
)
_RANDOM_TRANSFORM = re.compile(
    r"torchvision\.transforms\.(?:v2\.)?"
    r"(?:Random\w+|ColorJitter|AutoAugment|RandAugment|TrivialAugmentWide|AugMix|ElasticTransform)$"
)
"""Transforms of a library that draw from torch's generator."""
_KEEPS = frozenset({"int", "abs", "builtins.int", "builtins.abs"})
_DEPTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeding:
    """One number for the generators of all workers."""

    call: Call
    """The call that seeds."""
    given: str
    """The seed as written there."""
    draws: SourceSpan
    """A draw for an item from a generator that it seeds."""


@dataclass(frozen=True, slots=True)
class _Started:
    """A function that a worker runs, and the parameters that are alike in all of them."""

    script: Script
    function: Function
    fixed: frozenset[str]


def same_seeds(source: Source, loader: Loader, start: ast.expr) -> Seeding | None:
    """The first seeding of a `worker_init_fn` that is the same for all workers whose items then draw by it."""
    started = _started(source, loader.script, start)
    for call, seed in _seedings(source, started, _DEPTH) if started is not None else ():
        for script, other in _item_calls(source, loader):
            if any(_draws(other, prefix) for prefix in _SEEDS[call.name]):
                return Seeding(call=call, given=ast.unparse(seed), draws=script.span(other.node))
    return None


def _started(
    source: Source, script: Script, node: ast.expr, fixed: frozenset[str] = frozenset(), bound: int = 0
) -> _Started | None:
    """The function that an expression stands for: a name, a lambda, a method, a partial, an object."""
    if isinstance(node, ast.Lambda):
        return _with_worker(script, node, fixed, bound)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "partial" and node.args:
            given = frozenset(item.arg for item in node.keywords if item.arg is not None)
            return _started(source, script, node.args[0], fixed | given, bound + len(node.args) - 1)
        return _only(source, "__call__", fixed, bound, owner=name)
    if isinstance(node, ast.Attribute):
        return _only(source, node.attr, fixed, bound)
    if not isinstance(node, ast.Name):
        return None
    found = _in_scope(script, node) or _only(source, node.id, fixed, bound)
    if isinstance(found, _Started):
        return found
    if found is not None:
        return _with_worker(script, found, fixed, bound)
    values = assigned_values(nodes(script, ast.Assign), node.id)
    plain = len(values) == 1 and not isinstance(values[0], ast.Name)
    return _started(source, script, values[0], fixed, bound) if plain else None


def _in_scope(script: Script, name: ast.Name) -> ast.FunctionDef | None:
    """The one function of a name that stands in a function around the name's place, or in the module."""
    around = [item for item in enclosing(script, name) if not isinstance(item, ast.ClassDef)]
    for home in around:
        if isinstance(home, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            found = [
                item
                for item in nodes(script, ast.FunctionDef)
                if item.name == name.id and _home(script, item) is home
            ]
            if found:
                return found[0] if len(found) == 1 else None
    return None


def _home(script: Script, node: ast.AST) -> ast.AST | None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    return next((item for item in enclosing(script, node) if isinstance(item, kinds)), None)


def _only(
    source: Source, name: str, fixed: frozenset[str], bound: int, owner: str | None = None
) -> _Started | None:
    """The only function or method of the program that has a name; of one class, where it is given."""
    found = [
        (script, item, home)
        for script, item, home in _functions(source).get(name, ())
        if owner is None or (isinstance(home, ast.ClassDef) and home.name == owner)
    ]
    if len(found) != 1:
        return None
    script, function, home = found[0]
    static = any(getattr(item, "id", "") == "staticmethod" for item in function.decorator_list)
    return _with_worker(script, function, fixed, bound + (isinstance(home, ast.ClassDef) and not static))


@once
def _functions(source: Source) -> dict[str, list[tuple[Script, ast.FunctionDef, ast.AST | None]]]:
    """Functions and methods of a program by name, with what holds each."""
    found: dict[str, list[tuple[Script, ast.FunctionDef, ast.AST | None]]] = {}
    for script in source.scripts:
        for item in nodes(script, ast.FunctionDef):
            found.setdefault(item.name, []).append((script, item, _home(script, item)))
    return found


def _with_worker(script: Script, function: Function, fixed: frozenset[str], bound: int) -> _Started:
    """A function that a worker calls with its number: all other parameters are alike in all workers."""
    names = _parameters(function)
    free = [name for place, name in enumerate(names) if place >= bound and name not in fixed]
    return _Started(script, function, frozenset(names) - frozenset(free[:1]))


def _parameters(function: Function) -> list[str]:
    """Parameters by position, then by name; those that take any number of values are left out."""
    return [item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _seedings(source: Source, started: _Started, depth: int) -> Iterator[tuple[Call, ast.expr]]:
    """Calls that seed with what is the same for all workers, through functions of the program."""
    inside = {id(node) for node in walk(started.function)}
    for call in started.script.calls:
        if id(call.node) not in inside or call.guards:
            continue
        if call.name in _SEEDS:
            seeds = [*call.node.args, *(item.value for item in call.node.keywords if item.arg == "seed")]
            if len(seeds) == 1 and _same(started, seeds[0]):
                yield call, seeds[0]
        elif depth:
            called = _called(source, started, call)
            if called is not None:
                yield from _seedings(source, called, depth - 1)


def _called(source: Source, started: _Started, call: Call) -> _Started | None:
    """A function of the program that a function calls, with the parameters that are alike in all workers."""
    found = _functions(source).get(call.method, ())
    if len(found) != 1 or call.open_ended or isinstance(found[0][2], ast.ClassDef):
        return None
    script, function, _ = found[0]
    names = _parameters(function)
    passed = dict(zip(names, call.node.args, strict=False))
    passed |= {item.arg: item.value for item in call.node.keywords if item.arg is not None}
    same = {name for name, value in passed.items() if _same(started, value)}
    return _Started(script, function, frozenset(same | (_defaults(function) - set(passed))))


def _defaults(function: ast.FunctionDef) -> set[str]:
    """Parameters with a default that is a value: None as a seed asks for another one each time."""
    by_place = [item.arg for item in (*function.args.posonlyargs, *function.args.args)][::-1]
    found: list[tuple[str, ast.expr | None]] = list(zip(by_place, function.args.defaults[::-1], strict=False))
    by_name = [item.arg for item in function.args.kwonlyargs]
    found += zip(by_name, function.args.kw_defaults, strict=True)
    return {
        name
        for name, value in found
        if value is not None and not (isinstance(value, ast.Constant) and value.value is None)
    }


def _same(started: _Started, seed: ast.expr) -> bool:
    """Whether a seed depends on nothing that a function is given by the worker, or finds out in it."""
    function = started.function
    names = [node for node in walk(function) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= set(_parameters(function)) - started.fixed
    own |= {item.arg for item in (function.args.vararg, function.args.kwarg) if item is not None}
    for node in walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            own |= set(node.names)
    written = {
        ast.unparse(target)
        for node in walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute)
    }
    return _plain(function, seed, own, written, _DEPTH)


def _plain(function: Function, seed: ast.expr, own: set[str], written: set[str], depth: int) -> bool:
    if isinstance(seed, ast.Constant) and seed.value is None:
        return False
    for node in walk(seed):
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in _KEEPS:
            return False
        if isinstance(node, ast.Attribute) and ast.unparse(node) in written:
            return False
        if is_name(node, *own):
            values = assigned_values(walk(function), node.id)
            stores = sum(is_name(item, node.id) and isinstance(item.ctx, ast.Store) for item in walk(function))
            once_bound = len(values) == stores == 1 and depth > 0 and node.id not in _parameters(function)
            if not once_bound or not _plain(function, values[0], own, written, depth - 1):
                return False
    return True


def _item_calls(source: Source, loader: Loader) -> Iterator[tuple[Script, Call]]:
    """Calls that a worker makes for an item or a batch: the set's methods, its transforms, what they call."""
    todo: list[tuple[Script, ast.AST]] = []
    for made in _sets(loader):
        own = built(source, loader.script, made).own
        todo += [(script, item) for node in own for script in source.scripts for item in _methods(script, node)]
        for argument in (*made.node.args, *(item.value for item in made.node.keywords)):
            todo += _given_transforms(source, loader.script, argument, _DEPTH)
    collate = keyword_value(loader.call.node, "collate_fn")
    if collate is not None:
        todo += _given_transforms(source, loader.script, collate, _DEPTH)
    seen: set[int] = set()
    while todo:
        script, body = todo.pop(0)
        if id(body) in seen:
            continue
        seen.add(id(body))
        inside = {id(node) for node in walk(body)}
        for call in script.calls:
            if id(call.node) in inside:
                yield script, call
                found = _functions(source).get(call.method, ())
                todo += [(home, function) for home, function, _ in found[:1] if len(found) == 1]


def _sets(loader: Loader) -> list[Call]:
    """The calls that make a loader's data set; several where branches of one function choose."""
    if loader.dataset is None:
        return []
    made = construction(loader.script, loader.dataset)
    if made is not None or not isinstance(loader.dataset, ast.Name):
        return [made] if made is not None else []
    home = _home(loader.script, loader.call.node)
    beside = (item for item in nodes(loader.script, ast.Assign) if _home(loader.script, item) is home)
    values = assigned_values(beside, loader.dataset.id)
    return [call for call in loader.script.calls if any(call.node is value for value in values)]


def _methods(script: Script, owner: ast.ClassDef) -> Iterator[ast.AST]:
    """The methods of a class of a script that run after it was made."""
    if any(node is owner for node in nodes(script, ast.ClassDef)):
        for item in owner.body:
            if isinstance(item, ast.FunctionDef) and item.name != "__init__":
                yield item


def _given_transforms(
    source: Source, script: Script, value: ast.expr, depth: int
) -> Iterator[tuple[Script, ast.AST]]:
    """The functions, lambdas and callable objects of the program in an argument, `Compose([Crop(), flip])`."""
    for node in walk(value) if depth else ():
        if isinstance(node, ast.Lambda):
            yield script, node
        elif isinstance(node, ast.Name):
            found = _functions(source).get(node.id, ())
            yield from ((home, function) for home, function, _ in found[:1] if len(found) == 1)
            made = construction(script, node)
            if made is not None and made.node is not value:
                yield from _given_transforms(source, script, made.node, depth - 1)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield script, node  # a transform of a library
            for home in source.scripts:
                for owner in nodes(home, ast.ClassDef):
                    if owner.name == name:
                        yield from ((home, item) for item in _methods(home, owner))


def _draws(call: Call, prefix: str) -> bool:
    """Whether a call draws from the process's generator of a library."""
    if prefix == _TORCH:
        if _RANDOM_TRANSFORM.match(call.name):
            return True
        plain = call.name.removeprefix(prefix) in _TORCH_DRAWS
        return plain and call.name.startswith(prefix) and "generator" not in call.keywords
    return call.name.startswith(prefix) and call.method not in NO_DRAWS
