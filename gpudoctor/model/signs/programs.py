"""The programs in what was read: an entry script with the modules it imports. A folder holds several."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from gpudoctor.model.signs.program import calls_function
from gpudoctor.model.signs.source import Call, Loop, LoopRole, Script, Source

_FOUND: "WeakKeyDictionary[ast.Module, tuple[tuple[str, ...], tuple[Program, ...]]]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One entry script and what it imports of the user's own modules."""

    entry: Script
    scripts: tuple[Script, ...]
    """The entry first."""
    source: Source
    """The same scripts as a source of their own, for helpers that take one."""

    @property
    def loops(self) -> Iterator[tuple[Script, Loop]]:
        """Its training loops."""
        for script in self.scripts:
            for loop in script.loops:
                if loop.role is LoopRole.TRAINING:
                    yield script, loop

    @property
    def calls(self) -> Iterator[tuple[Script, Call]]:
        """Every call of its scripts."""
        for script in self.scripts:
            for call in script.calls:
                yield script, call

    @property
    def roots(self) -> frozenset[str]:
        """Top-level names of everything it imports: `torch`, `transformers`."""
        return frozenset(name.split(".")[0] for script in self.scripts for name in script.imports.values())

    @property
    def starts(self) -> bool:
        """Whether something in it starts a training loop. A module that only defines `train(model, loader)`
        for others to call does not: what it lacks (a seed, a precision, compiling) its caller may have."""
        return any(
            loop.engine is not None or not loop.function or _used(self, script, loop.function)
            for script, loop in self.loops
        )


def _used(program: Program, home: Script, function: str) -> bool:
    """Whether the program calls a function, hands it on by its name, or decorates it."""
    *owners, last = function.split(".")
    for _, call in program.calls:
        if call.function != function and (calls_function(call, function) or (owners and call.method == last)):
            return True
    for script in program.scripts:
        for node in ast.walk(script.tree):
            if isinstance(node, ast.Name) and node.id == last and isinstance(node.ctx, ast.Load):
                return True
            if isinstance(node, ast.FunctionDef) and node.name == last and node.decorator_list and script is home:
                return True
    return False


def training_programs(source: Source) -> tuple[Program, ...]:
    """The programs that train, in order of their entries; a module that two of them import is in both."""
    if not source.scripts:
        return ()
    first, names = source.scripts[0].tree, tuple(script.path for script in source.scripts)
    kept = _FOUND.get(first)
    if kept is None or kept[0] != names:
        kept = (names, _programs(source))
        _FOUND[first] = kept
    return kept[1]


def _programs(source: Source) -> tuple[Program, ...]:
    paths = {os.path.normpath(script.path): script for script in source.scripts}
    direct = {script.path: tuple(_imported(script, paths)) for script in source.scripts}
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


def _closure(entry: Script, direct: dict[str, tuple[Script, ...]]) -> tuple[Script, ...]:
    found = {entry.path: entry}
    waiting = [entry]
    while waiting:
        for other in direct.get(waiting.pop().path, ()):
            if other.path not in found:
                found[other.path] = other
                waiting.append(other)
    return tuple(found.values())


def _imported(script: Script, paths: dict[str, Script]) -> Iterator[Script]:
    """The scripts that one imports: `pkg.engine` beside it, or in a folder above it."""
    folder = os.path.dirname(script.path)
    folders = [folder]
    for _ in range(5):
        folder = os.path.normpath(os.path.join(folder, os.pardir)) if folder else os.pardir
        folders.append(folder)
    for name in _names(script):
        # In a folder that is read whole, a package's own imports begin with its `__init__`.
        parts = [part for part in name.split(".") if part and part != "__init__"]
        for length in range(len(parts), 0, -1):
            inner = os.path.join(*parts[:length])
            hit = next(
                (
                    paths[place]
                    for base in folders
                    for place in (
                        os.path.normpath(os.path.join(base, inner + ".py")),
                        os.path.normpath(os.path.join(base, inner, "__init__.py")),
                        os.path.normpath(os.path.join(base, "src", inner + ".py")),
                    )
                    if place in paths
                ),
                None,
            )
            if hit is not None:
                yield hit
                break


def _names(script: Script) -> Iterator[str]:
    """Dotted names that a script imports, star imports included."""
    yield from dict.fromkeys(script.imports.values())
    for node in ast.walk(script.tree):
        if isinstance(node, ast.ImportFrom) and node.module and any(item.name == "*" for item in node.names):
            yield node.module
