"""The programs in what was read: an entry script with the modules it imports. A folder holds several."""

import ast
import os
from collections.abc import Hashable, Iterator
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.syntax import mentioned, nodes
from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.source import Call, Loop, LoopRole, Script, Source


@frozen(eq=False)
class Program:
    """One entry script and what it imports of the user's own modules."""

    entry: Script
    scripts: tuple[Script, ...]
    """The entry first."""
    source: Source
    """The same scripts as a source of their own, for helpers that take one."""
    memory: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """Answers about it that were worked out before: `gpudoctor.analysis.memo`."""

    @property
    def loops(self) -> Iterator[tuple[Script, Loop]]:
        """Its training loops."""
        return self.source.training_loops

    @property
    def calls(self) -> Iterator[tuple[Script, Call]]:
        """Every call of its scripts."""
        for script in self.scripts:
            for call in script.calls:
                yield script, call

    @property
    @once
    def roots(self) -> frozenset[str]:
        """Top-level names of everything it imports: `torch`, `transformers`."""
        return frozenset[str]().union(*(_roots(script) for script in self.scripts))

    @property
    @once
    def called(self) -> frozenset[str]:
        """Resolved names of everything it calls."""
        return frozenset[str]().union(*(_called(script) for script in self.scripts))

    @property
    def target(self) -> Target:
        """The device that it trains on, by the strongest word in any of its scripts."""
        return training_target(self.source)

    @property
    @once
    def starts(self) -> bool:
        """Whether something in it starts a training loop. A module that only defines `train(model, loader)`
        for others to call does not, nor does one that only defines a class with a method that trains: what it
        lacks (a seed, a precision, compiling) its caller may have."""
        return any(_started(self, script, loop) for script, loop in self.loops)


@once
def _roots(script: Script) -> frozenset[str]:
    return frozenset(name.split(".")[0] for name in script.imports.values())


@once
def _called(script: Script) -> frozenset[str]:
    return frozenset(call.name for call in script.calls)


def _started(program: Program, home: Script, loop: Loop) -> bool:
    owner = loop.function.partition(".")[0]
    if owner in home.classes and not instantiated(program, owner):
        return False
    if owner in home.classes and (loop.engine or "").startswith("lightning."):
        return _runs_modules(program)
    return loop.engine is not None or not loop.function or any(script.starts for script in program.scripts)


def _runs_modules(program: Program) -> bool:
    """Whether anything runs a Lightning module's training steps: a Trainer, a CLI, somebody's `fit`."""
    return any(
        call.method in _RUNNERS or call.method.endswith(("Trainer", "CLI", "Fabric")) for _, call in program.calls
    )


_RUNNERS = frozenset({"fit", "training_step", "instantiate", "run_training"})
"""Methods that run training steps, or build by a name what does."""


def instantiated(program: Program, name: str, depth: int = 4) -> bool:
    """Whether the program names a class outside of the class, or so with one that extends it."""
    for script in program.scripts:
        if name in script.text and mentioned(script.kinds, script.parents, name):
            return True
        for node in nodes(script, ast.ClassDef) if depth else ():
            extends = any(ast.unparse(base).rpartition(".")[2] == name for base in node.bases)
            if extends and node.name != name and instantiated(program, node.name, depth - 1):
                return True
    return False


@once
def training_programs(source: Source) -> tuple[Program, ...]:
    """The programs that train, in order of their entries; a module that two of them import is in both."""
    paths = {os.path.normpath(script.path): script for script in source.scripts}
    direct = {
        script.path: tuple(paths[path] for link in script.links if (path := os.path.normpath(link)) in paths)
        for script in source.scripts
    }
    used = {other.path for path, others in direct.items() for other in others if other.path != path}
    found: list[Program] = []
    covered: set[str] = set()
    roots = [script for script in source.scripts if script.path not in used]
    for script in [*roots, *source.scripts]:
        if script.path in covered:
            continue
        scripts = _closure(script, direct)
        covered |= {item.path for item in scripts}
        program = Program(entry=script, scripts=scripts, source=Source(scripts=scripts))
        if any(True for _ in program.loops):
            found.append(program)
    return tuple(found)


def in_a_training(source: Source, script: Script) -> bool:
    """Whether a script belongs to a program that trains.

    What an evaluation lacks, a converter or a module that nothing in sight trains with, is not an ailment of a
    training.
    """
    return any(script.path == item.path for program in training_programs(source) for item in program.scripts)


def only_evaluates(source: Source) -> bool:
    """Whether what was read runs a model over data and trains none: its set-up is not a training's."""
    return not source.trains and any(
        loop.role is LoopRole.EVALUATION for script in source.scripts for loop in script.loops
    )


def _closure(entry: Script, direct: dict[str, tuple[Script, ...]]) -> tuple[Script, ...]:
    found = {entry.path: entry}
    waiting = [entry]
    while waiting:
        for other in direct.get(waiting.pop().path, ()):
            if other.path not in found:
                found[other.path] = other
                waiting.append(other)
    return tuple(found.values())
