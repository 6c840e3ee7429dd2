"""DATA014 same-seed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.recorded_loaders import training_loaders
from gpudoctor.analysis.source.built_classes import built
from gpudoctor.analysis.source.loaders import Loader, trains
from gpudoctor.analysis.source.origins import construction
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call, is_name, keyword_value, walk
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Known, Script, Source
from gpudoctor_checks.data.worker_seeds import same_seeds

_GENERATORS = frozenset(
    {"numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random"}
)
"""Makers of generators that keep their state in the object."""
_SEVERAL = 2
_REPEATS = say("the augmentations repeat: the model sees fewer different samples")


@dataclass(frozen=True, slots=True)
class SameSeedDetail(Detail):
    """What the rule reads."""

    seeds: str
    """What worker_init_fn seeds with, `numpy.random.seed`; "" where the data set holds a generator."""
    name: str = ""
    """The attribute that holds the generator."""
    maker: str = ""
    """The function that makes it."""


class SameSeed(Check):
    """All workers of a loader draw the same random numbers.

    What it finds:
        - A set class of the program that creates a generator in `__init__` (`numpy.random.default_rng`,
          `RandomState`, `random.Random`). It draws from the generator in `__getitem__`, in a training loader
          with two or more workers.
        - A `worker_init_fn` that seeds NumPy, `random` or torch with one number for all workers. The items
          (set, transforms, collate function) then draw from that generator.
    Why it hurts:
        Each worker gets a copy of the set with the generator's state. All workers make the same crops, flips
        and noise. Unless `persistent_workers` is set, new workers start each epoch from the same copy. Each
        epoch then repeats the draws of the first.
    How it knows:
        From the source: the class of the loader's set, the attribute with the generator, and the number of
        workers. gpudoctor follows the seeding call's arguments through lambdas, partials, methods and
        functions. If the source does not show the number of workers, a recording does.
    False alarms:
        torch seeds NumPy's and `random`'s global functions differently in each worker (NumPy since 1.9): they
        are not a finding. Nor is a set that calls `get_worker_info` or recreates its generator outside of
        `__init__`. Nor is a loader with another `worker_init_fn`, with fewer than two workers, or without
        training.
    Remedies:
        Create the generator in the worker, from `torch.initial_seed()`, at the first item.
    References:
        - https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader
        - https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading
    """

    code = Code("DATA014")
    name = "same-seed"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        for loader in training_loaders(patient):
            workers = _workers(loader)
            if workers < _SEVERAL or loader.dataset is None or not trains(source, loader):
                continue
            if not any(guard.never for guard in loader.call.guards):
                yield from self._of(source, loader, workers)

    def _of(self, source: Source, loader: Loader, workers: int) -> Iterator[Finding]:
        assert loader.dataset is not None
        made = construction(loader.script, loader.dataset)
        own = built(source, loader.script, made).own if made is not None else ()
        homes = [(script, node) for node in own for script in source.scripts if node in _classes(script)]
        start = keyword_value(loader.call.node, "worker_init_fn")
        if start is not None and not (isinstance(start, ast.Constant) and start.value is None):
            yield from self._started(source, loader, start, workers)
            return
        if loader.call.open_ended:
            return
        for script, node in homes:
            held = _held(script, node)
            if held is None:
                continue
            name, maker, draw = held
            yield self.finding(
                say(
                    "{node} makes self.{name} once, and each of the {workers} workers of {loader} "
                    "gets a copy of it. All of them draw the same random numbers.",
                    node=node.name,
                    name=name,
                    workers=workers,
                    loader=loader.label,
                ),
                evidence=(script.span(draw), script.span(maker), loader.call.span),
                confidence=Confidence.SUSPECTED,
                cost=Cost(breaks=_REPEATS),
                subject=f"{script.path}:{draw.lineno}",
                detail=SameSeedDetail("", name, ast.unparse(maker.func)),
            )
            return

    def _started(
        self,
        source: Source,
        loader: Loader,
        start: ast.expr,
        workers: int,
    ) -> Iterator[Finding]:
        found = same_seeds(source, loader, start)
        if found is None:
            return
        yield self.finding(
            say(
                "worker_init_fn seeds each of the {workers} workers with {given}: all draw the same random "
                "numbers.",
                workers=workers,
                given=found.given,
            ),
            evidence=(found.call.span, found.draws, loader.call.span),
            confidence=Confidence.SUSPECTED,
            cost=Cost(breaks=_REPEATS),
            subject=f"{found.call.span.path}:{found.call.span.line}",
            detail=SameSeedDetail(ast.unparse(found.call.node.func)),
        )


def _workers(loader: Loader) -> int:
    """How many workers a loader has; 0 where neither the source nor a recording tells."""
    told = loader.workers.value if isinstance(loader.workers, Known) else None
    return told if isinstance(told, int) and not isinstance(told, bool) else 0


def _classes(script: Script) -> list[ast.ClassDef]:
    return [node for node in walk(script.tree) if isinstance(node, ast.ClassDef)]


def _held(script: Script, owner: ast.ClassDef) -> tuple[str, ast.Call, ast.Call] | None:
    """The attribute that keeps a generator for the set's whole life: its name, what makes it, a draw."""
    if "worker_info" in ast.unparse(owner):
        return None
    methods = {item.name: item for item in owner.body if isinstance(item, ast.FunctionDef)}
    first, items = methods.get("__init__"), methods.get("__getitem__")
    if first is None or items is None:
        return None
    names = {call.node: call.name for call in script.calls}
    for statement in first.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        if not (
            isinstance(target, ast.Attribute) and is_name(target.value, "self") and isinstance(value, ast.Call)
        ):
            continue
        if names.get(value) not in _GENERATORS or _bound_again(owner, statement, target.attr):
            continue
        called = {node.func.attr for node in walk(items)
                  if is_method_call(node)
                  and is_name(node.func.value, "self")}  # fmt: skip
        for function in (items, *(methods[name] for name in sorted(called & set(methods)))):
            for node in walk(function):
                method = node.func if isinstance(node, ast.Call) else None
                if isinstance(method, ast.Attribute) and _is_held(method.value, target.attr):
                    assert isinstance(node, ast.Call)
                    return target.attr, value, node
    return None


def _bound_again(owner: ast.ClassDef, statement: ast.Assign, name: str) -> bool:
    """Whether the generator is made anew, seeded, or handed on anywhere else in the class."""
    for node in walk(owner):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and _is_held(node, name) and node is not statement.targets[0]:
            return True
        if is_method_call(node):
            renewed = node.func.attr in {"seed", "spawn", "setstate", "set_state", "jumped"}
            if renewed and _is_held(node.func.value, name):
                return True
    text = ast.unparse(owner)
    return "setattr(" in text or f"self.{name}.bit_generator" in text


def _is_held(node: ast.AST, name: str) -> bool:
    return is_attribute(node, name) and is_name(node.value, "self")
