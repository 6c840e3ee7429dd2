"""The program's own modules, classes and functions, and the record of what a function's body does."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from gpudoctor.analysis.source.syntax import by_kind, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Call, Guard, Loop, LoopRole, Value
from gpudoctor.vitals.source.values import AbstractValue, BindingHistory

if TYPE_CHECKING:
    from gpudoctor.vitals.source.scope import ScopeState

A = TypeVar("A", bound=ast.AST)

BACKWARD = 1
STEP = 2
FORWARD = 4
GUESS = 8
"""The effect was told from names alone."""
EVAL = 16
"""`.eval()` on a module."""
TRAIN = 32
"""`.train()` on a module."""
WEAK = 64
"""`torch.autograd.grad`: a backward pass if an update follows."""
COLLECT = 256
"""A step of an environment: the loop collects experience."""
MANUAL = 128
"""An update by hand from `.grad`: a step if a backward pass is there."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Mark:
    """A guard, and the loop whose passes it thins."""

    guard: Guard
    depth: int | None = None
    """Index of that loop among the scope's open loops; -1 for none of them; None when it cannot be told."""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class LoopRecord:
    """A lexical loop of one scope."""

    node: ast.AST
    scope: "FunctionRecord"
    parents: "tuple[LoopRecord, ...]"
    base: int
    """Guards that were open at its head."""
    stores: frozenset[str]
    """Names that its head or body binds."""
    span: SourceSpan
    iterates: str = ""
    source: AbstractValue | None = None
    """What it iterates over."""
    count: Value | None = None
    """Passes, of `range(N)`."""
    targets: tuple[str, ...] = ()
    start: int = 0
    """Index of its first item in the scope's record."""
    end: int = 0
    no_grad: bool = False
    comprehension: bool = False
    role: LoopRole = LoopRole.OTHER
    confident: bool = True
    loop: Loop | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Item:
    """One thing that a scope executes."""

    node: ast.AST
    call: Call | None
    guards: tuple[Mark, ...]
    loops: tuple[LoopRecord, ...]
    no_grad: bool
    evaluating: bool
    time: int
    effect: int = 0
    callee: "Function | None" = None
    graph: bool = False


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class FunctionRecord:
    """What a scope (a module, or a function) does, in order."""

    module: "Module"
    name: str
    """Qualified name, "" for the module itself."""
    items: list[Item] = field(default_factory=list)
    loops: list[LoopRecord] = field(default_factory=list)
    past: BindingHistory = field(default_factory=BindingHistory)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Function:
    """A function, method or lambda of the program."""

    node: FunctionNode
    module: "Module"
    name: str
    outer: "ScopeState"
    klass: "ClassSymbol | None" = None
    defaults: dict[str, AbstractValue] = field(default_factory=dict)
    options: dict[str, AbstractValue] = field(default_factory=dict)
    """Parameters that a command-line decorator fills."""
    no_grad: bool = False
    static: bool = False
    bound_class: bool = False
    """Whether it is a classmethod."""
    is_property: bool = False
    context: bool = False
    params: dict[str, AbstractValue] = field(default_factory=dict)
    """What call sites pass, joined."""
    runs: int = 0
    running: bool = False
    called: bool = False
    returned: AbstractValue | None = None
    record: FunctionRecord | None = None

    @property
    def short(self) -> str:
        """Its own name."""
        return self.name.rpartition(".")[2]


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ClassSymbol:
    """A class of the program."""

    node: ast.ClassDef
    module: "Module"
    name: str
    bases: tuple[AbstractValue, ...] = ()
    kind: str | None = None
    """The library class it descends from, as far as known."""
    members: dict[str, AbstractValue] = field(default_factory=dict)
    """Methods and class attributes."""
    attrs: dict[str, AbstractValue] = field(default_factory=dict)
    """Attributes of its instances."""
    fields: dict[str, AbstractValue] = field(default_factory=dict)
    """Fields of a dataclass, with their defaults."""
    data: bool = False
    """Whether it is a dataclass or the like."""

    def lineage(self) -> "list[ClassSymbol]":
        """Itself and its bases of the program, nearest first."""
        found: list[ClassSymbol] = []
        waiting: list[ClassSymbol] = [self]
        while waiting and len(found) < 50:
            klass = waiting.pop(0)
            if klass not in found:
                found.append(klass)
                waiting.extend(b.definition for b in klass.bases if isinstance(b.definition, ClassSymbol))
        return found

    def member(self, name: str) -> AbstractValue | None:
        """A method or class attribute, its own or inherited."""
        for klass in self.lineage():
            if name in klass.members:
                return klass.members[name]
        return None

    def method(self, name: str) -> Function | None:
        """A method, its own or inherited."""
        found = self.member(name)
        return found.definition if found is not None and isinstance(found.definition, Function) else None

    def attribute(self, name: str) -> AbstractValue | None:
        """An attribute of its instances."""
        for klass in self.lineage():
            if name in klass.attrs:
                return klass.attrs[name]
        return None

    def all_fields(self) -> dict[str, AbstractValue]:
        """Dataclass fields, inherited ones first."""
        merged: dict[str, AbstractValue] = {}
        for klass in reversed(self.lineage()):
            merged.update(klass.fields)
        return merged


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Module:
    """One parsed file."""

    path: str
    """As the user named it."""
    file: str
    """Absolute path."""
    text: str
    lines: list[str]
    tree: ast.Module
    entry: bool
    name: str = ""
    words: tuple[str, ...] | None = None
    """Command-line words that follow the script in its launch line."""
    cells: tuple[tuple[int, int], ...] = ()
    """For a notebook: first line of each cell in `text`, and the cell's number."""
    nodes: int = 0
    """Nodes of the tree."""
    frame: "ScopeState | None" = None
    started: bool = False
    calls: dict[int, Call] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    klasses: list[ClassSymbol] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    links: "list[Module]" = field(default_factory=list)
    """Modules of the program that it imports."""
    arguments: dict[str, Value] = field(default_factory=dict)
    torch: bool = False
    """Whether it imports torch or something built on it."""
    cut: list[tuple[int, int]] = field(default_factory=list)
    """First and last lines of what no entry point reaches: cut out of the tree."""
    unused: tuple[tuple[int, int], ...] = ()
    """First and last lines of functions and classes that nothing mentions: a registry may still list them."""
    kinds: dict[type[ast.AST], list[ast.AST]] | None = None
    """The tree's nodes by their exact type; None after a cut, until somebody asks again."""

    def of(self, *kinds: type[A]) -> Iterator[A]:
        """The tree's nodes of some exact types, those of one type in the order of `ast.walk`."""
        if self.kinds is None:
            self.kinds = by_kind(walk(self.tree))
        for kind in kinds:
            yield from self.kinds.get(kind, ())  # type: ignore[misc]

    def reach(self) -> "list[Module]":
        """Itself and the modules it imports, directly or not."""
        found = [self]
        seen = {id(self)}
        for module in found:  # grows while it is walked
            for other in module.links:
                if id(other) not in seen:
                    seen.add(id(other))
                    found.append(other)
        return found

    def segment(self, node: ast.AST, limit: int = 400) -> str:
        """The source of an expression, on one line, at most `limit` characters."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not first or last > len(self.lines):
            return ""
        start, stop = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        line = self.lines[first - 1]
        if first == last:
            if line.isascii():
                return line[start:stop][:limit]
            return line.encode("utf-8", "replace")[start:stop].decode("utf-8", "replace")[:limit]
        parts = [line.encode("utf-8", "replace")[start:].decode("utf-8", "replace").strip()]
        size = len(parts[0])
        for number in range(first, last):
            if size > limit:
                break
            text = self.lines[number]
            if number == last - 1:
                text = text.encode("utf-8", "replace")[:stop].decode("utf-8", "replace")
            parts.append(text.strip())
            size += len(parts[-1])
        return " ".join(parts)[:limit]

    def span(self, node: ast.AST) -> SourceSpan:
        """The place of a node."""
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        offset = getattr(node, "col_offset", 0)
        if not text.isascii():
            offset = len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore"))
        text = text.strip()[:400]
        if self.cells:
            text = self._cell(line) + text
        return SourceSpan(
            path=self.path,
            line=line,
            column=offset + 1,
            end_line=getattr(node, "end_lineno", None),
            text=text,
        )

    def _cell(self, line: int) -> str:
        found = None
        for first, number in self.cells:
            if first > line:
                break
            found = (first, number)
        return f"[cell {found[1]}, line {line - found[0] + 1}] " if found else ""
