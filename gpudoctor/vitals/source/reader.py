"""From paths to `Source`: read files, follow their imports, interpret, decide roles."""

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.model.read_limits import SCRIPT, SOURCE_NODES, ReadLimit
from gpudoctor.model.signs.source import Event, Known, Loop, LoopRole, Script, Source, Thing, Unknown, Value
from gpudoctor.vitals.source.engines import engine_loops
from gpudoctor.vitals.source.events import Events, Step, Walker
from gpudoctor.vitals.source.files import UnreadSource, load, scripts_below, silences
from gpudoctor.vitals.source.importing import Importer
from gpudoctor.vitals.source.loop_roles import Roles
from gpudoctor.vitals.source.passes import record as recorded
from gpudoctor.vitals.source.program import SourceLookup
from gpudoctor.vitals.source.reachability import cut_branches, cut_unreached, in_cut, starts
from gpudoctor.vitals.source.settings import declared, launched
from gpudoctor.vitals.source.values import BACKWARD, STEP, AbstractValue, LoopRecord, Module, value_of


def read_source(
    paths: Sequence[Path],
    arguments: Mapping[Path, Sequence[str]] | Mapping[str, Sequence[str]] | None = None,
    limit: ReadLimit = SCRIPT,
    texts: Mapping[str, str] | None = None,
) -> Source:
    """The program that some scripts, notebooks and folders make up, with the local modules they import.

    `arguments` holds the command-line words that follow a script in its launch line, `texts` what is to be read
    in place of some files, by real path. What cannot be read ends
    in `Source.unread`, each with a sentence; nothing raises.
    """
    words = {str(path): tuple(given) for path, given in (arguments or {}).items()}
    reader = _Reader(limit, words, texts or {})
    for path in paths:
        reader.target(Path(path))
    return reader.finish()


def program_files(paths: Sequence[Path]) -> list[str]:
    """The files of scripts and of the local modules that they import; nothing is interpreted."""
    reader = _Reader(SCRIPT, {}, {})
    for path in paths:
        reader.target(path)
    program = SourceLookup(reader.importer)
    for module in reader.entries:
        if module.tree not in module.scopes:
            program.take(module)
    return [*reader.importer.modules]


class _Reader:
    def __init__(self, limit: ReadLimit, words: Mapping[str, tuple[str, ...]], texts: Mapping[str, str]) -> None:
        self.limit = limit
        self.texts = texts
        self.words = {os.path.abspath(path): given for path, given in words.items()}
        self.unread: dict[str, str] = {}
        self.notes: list[tuple[str, str]] = []
        self.entries: list[Module] = []
        self.total = 0
        self.importer = Importer(self._imported, texts)

    def target(self, path: Path) -> None:
        """A script, notebook or folder that the user named."""
        try:
            folder = os.path.isdir(path)
        except (OSError, ValueError) as error:
            self.unread[str(path)] = say(
                "{path}: it cannot be read: {reason}", path=path, reason=getattr(error, "strerror", None) or error
            )
            return
        if not folder:
            self._entry(path)
            return
        found, more = scripts_below(path)
        for script in found:
            self._entry(script)
        if more:
            self.notes.append(
                (str(path), say("{path}: only the first {found} Python files were read", path=path, found=len(found)))
            )
        elif not found:
            self.notes.append((str(path), say("{path}: this folder has no Python file", path=path)))

    def _entry(self, path: Path) -> None:
        file = os.path.abspath(path)
        if file in self.importer.modules:
            return
        module = self._load(path, entry=True)
        if module is not None:
            module.words = self.words.get(file)
            self.importer.add(module)
            self.entries.append(module)

    def _imported(self, file: str, entry: bool) -> Module | None:
        beside = os.path.relpath(file)
        shown = beside if not beside.startswith("..") else file
        if self.entries and not os.path.isabs(self.entries[0].path):
            return self._load(Path(shown), entry=entry)
        return self._load(Path(file), entry=entry)

    def _load(self, path: Path, entry: bool) -> Module | None:
        shown = str(path)
        if self.total > SOURCE_NODES.most:
            self.unread[shown] = say(
                "{shown}: not read: the files before it have {words}", shown=shown, words=SOURCE_NODES.words
            )
            return None
        try:
            module, notes = load(path, shown, self.limit, entry, self.texts)
        except UnreadSource as error:
            self.unread[shown] = str(error)
            return None
        self.total += module.nodes
        cut_branches(module)
        self.notes += [(shown, note) for note in notes]
        return module

    def finish(self) -> Source:
        program = SourceLookup(self.importer)
        for module in self.entries:
            if module.tree not in module.scopes:
                program.take(module)
        program.link()
        modules = program.modules
        for module in modules:
            declared(program, module)
            module.record = recorded(program, module, None)
        for module in modules:
            for function in module.functions:
                function.called = bool(program.sites(function)) or launched(program, function) is not None
                function.record = recorded(program, module, function)
        scripts = tuple(_Builder(program).scripts(modules))
        return Source(scripts=scripts, unread=(*self.unread.items(), *self.notes))


class _Builder:
    """Turns what was interpreted into what checks see."""

    def __init__(self, program: SourceLookup) -> None:
        self.program = program
        self.roles = Roles()
        self.asked: dict[Module, Callable[[ast.AST], Thing]] = {}
        self.walker = Walker(self.roles)

    def scripts(self, modules: Sequence[Module]) -> Iterator[Script]:
        for module in modules:
            if module.record is not None:
                self.roles.of_scope(module.record)
            for function in module.functions:
                self.roles.of_function(function)
        engines = engine_loops(modules, lambda hooks: Events(lambda: self._events(self.walker.hook_steps(hooks))))
        lines = [
            (module, loop.span.line) for module in modules for loop in _loops(module) if loop.role is LoopRole.TRAINING
        ]
        lines += [(module, node.lineno) for module, node, _ in engines]  # type: ignore[attr-defined]
        cut_unreached(modules, [(module, line) for module, line in lines if not in_cut(module, line)])
        for module in modules:
            yield self._script(module, [loop for home, _, loop in engines if home is module])

    def _script(self, module: Module, engines: Sequence[Loop]) -> Script:
        ignored, reasons = silences(module)
        records = [loop for loop in _loops(module) if not in_cut(module, loop.span.line)]
        records.sort(key=lambda r: (r.span.line, r.span.column))
        loops = [self.loop(record) for record in records]
        loops += [loop for loop in engines if not in_cut(module, loop.span.line)]
        found = [call for call in module.calls.values() if not in_cut(module, call.node.lineno)]
        calls = sorted(found, key=lambda c: (c.span.line, c.span.column))
        return Script(
            path=module.path,
            text=module.text,
            tree=module.tree,
            kinds=module.by_kind(),
            parents=module.parents,
            lines=len(module.lines),
            calls=tuple(calls),
            loops=tuple(loops),
            classes={klass.name: klass.info() for klass in module.klasses if not in_cut(module, klass.node.lineno)},
            imports=dict(module.imports),
            arguments=module.arguments,
            entry=module.entry,
            ignored=ignored,
            ignore_reasons=reasons,
            unused=module.unused,
            links=tuple(link.path for link in module.links),
            starts=starts(module),
            thing=self._things(module),
            written=lambda node: self.program.written(module, node),
            span=module.span,
        )

    def _things(self, module: Module) -> Callable[[ast.AST], Thing]:
        if module not in self.asked:
            self.asked[module] = lambda node: self._thing(module, node)
        return self.asked[module]

    def _thing(self, module: Module, node: ast.AST) -> Thing:
        thing = self.program.thing(module, node)
        made = thing.made
        inner: AbstractValue | None = thing
        for _ in range(4):
            inner = (inner.over or inner.elem) if inner is not None else None
            made = (*made, *(inner.made if inner is not None else ()))
        defined = getattr(thing.definition, "node", None)
        return Thing(
            defined=defined,
            type=self.program.type_name(thing),
            device=thing.device,
            made=made,
            value=value_of(thing, module.segment(node)),
        )

    def loop(self, record: LoopRecord) -> Loop:
        """The loop of a record, made once."""
        if record.loop is None:
            parents = tuple(self.loop(parent) for parent in record.parents)
            node = record.node
            source = record.source
            while source is not None and source.over is not None:
                source = source.over
            record.loop = Loop(
                role=record.role,
                span=record.span,
                end_line=getattr(node, "end_lineno", None) or record.span.line,
                function=record.scope.name,
                iterates=record.iterates,
                iterable_type=self.program.type_name(source) if source is not None else None,
                targets=record.targets,
                events=Events(lambda: self._events(self.walker.steps(record))),
                parents=parents,
                accumulates=self._accumulates(record) if record.role is LoopRole.TRAINING else None,
                confident=record.confident,
                count=record.count,
            )
        return record.loop

    def _events(self, steps: Iterator[Step]) -> Iterator[Event]:
        for step in steps:
            item, module = step.item, step.scope.module
            yield Event(
                node=item.node,
                call=item.call,
                span=item.call.span if item.call is not None else module.span(item.node),
                guards=step.guards,
                inner=tuple(self.loop(record) for record in step.inner),
                via=step.via,
                evaluation=step.evaluation,
                no_grad=step.no_grad,
                thing=self._things(module),
            )

    def _accumulates(self, record: LoopRecord) -> Value | None:
        """Micro-batches a step: the period of the step's guard, or the passes of the backward's loop."""
        found: Value | None = None
        common: set[int] = set()
        """Lines of the guards that the backward pass stands under too."""
        for step in self.walker.steps(record):
            item = step.item
            if item.effect & BACKWARD:
                common.update(guard.line for guard in step.guards)
            if item.effect & STEP:
                periods = [g.period for g in step.guards if g.period is not None and g.line not in common]
                if periods:
                    found = periods[-1]
                    break
            if item.call is not None and item.call.method == "backward" and step.inner:
                count = step.inner[-1].count
                found = count if count is not None else Unknown(text=step.inner[-1].iterates)
        return None if isinstance(found, Known) and found.value == 1 else found


def _loops(module: Module) -> Iterator[LoopRecord]:
    for record in (module.record, *(function.record for function in module.functions)):
        if record is not None:
            yield from record.loops
