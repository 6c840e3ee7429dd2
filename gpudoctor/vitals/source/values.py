"""What the reader knows: of one name or expression its type, value, device, parts and meaning as a test; of the
program its own modules, classes and functions, and what a function's body does.

One file has both, because a value may be an instance of a class, and a class has values.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from gpudoctor.analysis.source.syntax import walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import dataclass, dataclass_transform, field, fields, replace
from gpudoctor.model.signs.source import (
    Call,
    ClassInfo,
    Guard,
    GuardKind,
    Known,
    Literal,
    Loop,
    LoopRole,
    Unknown,
    Value,
)

A = TypeVar("A", bound=ast.AST)


@dataclass_transform(field_specifiers=(field,))
def lean(kind: Any) -> Any:
    """A dataclass with slots, without the methods that nobody calls."""
    return dataclass(slots=True, eq=False, repr=False, match_args=False)(kind)


MODULE = "torch.nn.Module"
TENSOR = "torch.Tensor"
BATCH = "batch"
"""Internal type of a batch not yet taken apart: a tensor, or a dict or tuple of them."""
OPTIMIZER = "torch.optim.Optimizer"
SCHEDULER = "torch.optim.lr_scheduler.LRScheduler"
LOADER = "torch.utils.data.DataLoader"
DATASET = "torch.utils.data.Dataset"
DEVICE = "torch.device"
WITH_A_GPU = "with a GPU"
"""Origin of what is true where there is one: `torch.cuda.is_available()`, `device.type == "cuda"`."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@lean
class Condition:
    """A condition, as far as it says how often what it guards runs."""

    kind: GuardKind
    period: Value | None = None
    value: Value | None = None
    negated: bool = False
    """Whether it is the opposite of its kind: every pass but the Nth, no failure."""

    @property
    def mostly(self) -> bool:
        """Whether it holds on nearly every pass."""
        return self.negated and self.kind in (GuardKind.PERIOD, GuardKind.ONCE, GuardKind.FAILURE)

    def opposite(self) -> "Condition":
        """The meaning of `not` this."""
        value = self.value
        if isinstance(value, Known):
            value = Known(value=not value.value, origin=value.origin, text=f"not {value.text}")
        return replace(self, negated=not self.negated, value=value)

    def guard(self, text: str, line: int) -> Guard:
        """The guard of a statement under the condition."""
        if self.negated and self.kind is not GuardKind.RANK and self.kind is not GuardKind.SWITCH:
            return Guard(kind=GuardKind.OTHER, text=text, line=line, mostly=self.mostly)
        return Guard(kind=self.kind, text=text, line=line, period=self.period, value=self.value)


Meanings: TypeAlias = tuple[Condition, ...]
"""A conjunction: all of them hold."""


@lean
class AbstractValue:
    """An abstract value. Treated as immutable: a change makes a new one."""

    type: str | None = None
    """Resolved class of an instance."""
    value: "Literal | _Missing" = MISSING
    """Its value when a constant expression gives it."""
    origin: str = "literal"
    device: str | None = None
    ref: str | None = None
    """Dotted name of a library's module, class or function."""
    definition: "Function | ClassSymbol | Module | None" = None
    """The program's own function, class or module that this names."""
    klass: "ClassSymbol | None" = None
    """The program's own class that this is an instance of."""
    owner: "AbstractValue | None" = None
    """`self` of a bound method."""
    attrs: "dict[str, AbstractValue] | None" = None
    """Fields of a namespace or config object."""
    items: "tuple[AbstractValue, ...] | None" = None
    """Elements of a tuple or list."""
    keys: "dict[str, AbstractValue] | None" = None
    """Entries of a dict with literal keys."""
    open: bool = False
    """Whether a dict may have entries that were not seen."""
    elem: "AbstractValue | None" = None
    """What iterating gives."""
    over: "AbstractValue | None" = None
    """What `enumerate`, `zip` and the like go through."""
    test: Meanings | None = None
    """What it means as a condition."""
    modulus: Value | None = None
    """N of `step % N`."""
    option: bool = False
    """Whether it comes from the command line, a config or the environment."""
    optional: bool = False
    """Whether it may be None: what some calls give, one branch."""
    guessed: bool = False
    """Whether the type was told from the name alone."""
    made: tuple[ast.Call, ...] = ()
    """The calls that may have built it."""
    _vague: "AbstractValue | None" = field(default=None, init=False)
    """Itself without its value, once somebody asked: it is asked for often, and for the same things."""

    @property
    def known(self) -> bool:
        """Whether its value is known."""
        return self.value is not MISSING

    def replace(self, **changes: object) -> "AbstractValue":
        """A copy with changes."""
        other = object.__new__(AbstractValue)  # `dataclasses.replace` takes five times as long
        for name in _FIELDS:
            setattr(other, name, changes[name] if name in changes else getattr(self, name))
        other._vague = None
        return other

    def widened(self) -> "AbstractValue":
        """The same without its value, as it is when it may change from pass to pass."""
        if self._vague is None:
            self._vague = made = self._without_value()
            made._vague = made
        return self._vague

    def _without_value(self) -> "AbstractValue":
        if self.keys is not None and not self.open:
            return self.replace(value=MISSING, keys={k: v.widened() for k, v in self.keys.items()}, test=None)
        if self.value is MISSING and self.test is None and self.items is None:
            return self
        if self.items is not None:
            return self.replace(value=MISSING, test=None, items=tuple(i.widened() for i in self.items))
        return self.replace(value=MISSING, test=None)


_FIELDS = tuple(item.name for item in fields(AbstractValue) if item.init)
NOTHING = AbstractValue()
NUMBER = AbstractValue(type="number")
TEXT = AbstractValue(type="str")


def tensor(device: str | None = None) -> AbstractValue:
    """A tensor."""
    return AbstractValue(type=TENSOR, device=device)


def value_of(thing: AbstractValue, text: str) -> Value:
    """The thing as checks see an argument."""
    value = thing.value
    if isinstance(value, _Missing):
        if thing.items is not None:
            parts = tuple(i.value for i in thing.items if not isinstance(i.value, _Missing))
            if len(parts) == len(thing.items):
                return Known(value=parts, origin=_origin(thing.items), text=text)
        return Unknown(text=text)
    return Known(value=value, origin=thing.origin, text=text)


def _origin(things: "tuple[AbstractValue, ...]") -> str:
    return next((t.origin for t in things if t.origin != "literal"), "literal")


def same_value(a: object, b: object) -> bool:
    """Equal, and of one type: 1 is not True."""
    return a is b or (type(a) is type(b) and a is not MISSING and a == b)


# The program

BACKWARD = 1
STEP = 2
FORWARD = 4
GUESS = 8
"""The effect was told from names alone."""
EVAL = 16
"""`.eval()` on a module."""
TRAIN = 32
"""`.train()` on a module."""
COLLECT = 64
"""A step of an environment: the loop collects experience."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@lean
class LoopRecord:
    """A lexical loop of one scope."""

    node: ast.AST
    scope: "FunctionRecord"
    parents: "tuple[LoopRecord, ...]"
    base: int
    """Guards that were open at its head."""
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
    role: LoopRole = LoopRole.OTHER
    confident: bool = True
    loop: Loop | None = None


@lean
class Item:
    """One thing that a scope executes."""

    node: ast.AST
    call: Call | None
    guards: tuple[Guard, ...]
    loops: tuple[LoopRecord, ...]
    no_grad: bool
    evaluating: bool
    effect: int = 0
    callee: "Function | None" = None


@lean
class FunctionRecord:
    """What a scope (a module, or a function) does, in order."""

    module: "Module"
    name: str
    """Qualified name, "" for the module itself."""
    items: list[Item] = field(default_factory=list)
    loops: list[LoopRecord] = field(default_factory=list)


@lean
class Binding:
    """One way in which a name gets a value."""

    node: ast.AST
    """The statement that binds it."""
    kind: str
    """`value`, `each` (of an iteration), `with`, `sum` (`+=`), `entry` (`x[key] = `), `change` (`x.to(device)`),
    `def`, `import`, `parameter`, or `none`."""
    end: tuple[int, int]
    """From which line and column on it holds."""
    scope: "Scope"
    value: ast.AST | None = None
    part: tuple[int, ...] = ()
    """Which piece of the value: places in tuples, outermost first."""


@lean
class Scope:
    """What binds names: a module, a function, a class."""

    node: ast.AST
    module: "Module"
    outer: "Scope | None"
    name: str
    """Qualified name, "" for the module."""
    function: "Function | None" = None
    klass: "ClassSymbol | None" = None
    """The class whose body it is."""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    """By name; `args.lr` and `self.step` are names too."""
    shared: set[str] = field(default_factory=set)
    """Names that it declares to be outside."""


@lean
class Function:
    """A function, method or lambda of the program."""

    node: FunctionNode
    module: "Module"
    scope: Scope
    klass: "ClassSymbol | None" = None
    no_grad: bool = False
    static: bool = False
    bound_class: bool = False
    """Whether it is a classmethod."""
    is_property: bool = False
    decorators: tuple[tuple[ast.expr, str], ...] = ()
    """Decorators with the names of what they call."""
    returns: list[ast.expr | None] = field(default_factory=list)
    yields: list[ast.Yield | ast.YieldFrom] = field(default_factory=list)
    called: bool = False
    record: FunctionRecord | None = None

    @property
    def name(self) -> str:
        """Qualified name."""
        return self.scope.name

    @property
    def short(self) -> str:
        """Its own name."""
        return self.name.rpartition(".")[2]


@lean
class ClassSymbol:
    """A class of the program."""

    node: ast.ClassDef
    module: "Module"
    scope: Scope
    bases: tuple[AbstractValue, ...] = ()
    kind: str | None = None
    """The library class it descends from, as far as known."""
    methods: dict[str, Function] = field(default_factory=dict)
    attrs: dict[str, list[Binding]] = field(default_factory=dict)
    """Attributes that its methods give to `self`."""
    data: bool = False
    """Whether it is a dataclass or the like."""
    steered: bool = False
    """Whether gin binds what its constructor gets."""
    told: ClassInfo | None = None
    """The answer of `info`."""

    @property
    def name(self) -> str:
        """Qualified name."""
        return self.scope.name

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

    def method(self, name: str) -> Function | None:
        """A method, its own or inherited."""
        return next((klass.methods[name] for klass in self.lineage() if name in klass.methods), None)

    def info(self) -> ClassInfo:
        """The class as checks see it, once all classes know what they extend."""
        if self.told is None:
            lineage = self.lineage()
            bases = [base for klass in lineage for base in klass.bases]
            names = [base.ref or getattr(base.definition, "name", "") for base in bases]
            methods = {name: function.node for name, function in self.methods.items()}
            self.told = ClassInfo(
                name=self.name,
                bases=tuple(dict.fromkeys(name for name in (*names, self.kind) if name)),
                methods=methods,  # type: ignore[arg-type]
                span=self.module.span(self.node),
                lineage=tuple(klass.node for klass in lineage),
            )
        return self.told


@lean
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
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    kinds: dict[type[ast.AST], list[ast.AST]] = field(default_factory=dict)
    """As `by_kind` gives them, with what is `gone`."""
    gone: set[ast.AST] = field(default_factory=set)
    homes: dict[ast.AST, Scope] = field(default_factory=dict)
    """Answers of `home`."""
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    """By the node that makes them: the tree, functions, lambdas, classes."""
    record: FunctionRecord | None = None
    """What its own level does."""
    calls: dict[ast.Call, Call] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    klasses: list[ClassSymbol] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)
    """`from x import *`."""
    links: "list[Module]" = field(default_factory=list)
    """Modules of the program that it imports."""
    arguments: dict[str, Value] = field(default_factory=dict)
    torch: bool = False
    """Whether it imports torch or something built on it."""
    cut: list[tuple[int, int]] = field(default_factory=list)
    """First and last lines of what no entry point reaches: cut out of the tree."""
    unused: tuple[tuple[int, int], ...] = ()
    """First and last lines of functions and classes that nothing mentions: a registry may still list them."""

    @property
    def scope(self) -> Scope:
        """Its own level."""
        return self.scopes[self.tree]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What holds a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def of(self, *kinds: type[A]) -> Iterator[A]:
        """The tree's nodes of some exact types, those of one type in the order of `ast.walk`."""
        found = self.by_kind()
        for kind in kinds:
            yield from found.get(kind, ())  # type: ignore[misc]

    def by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        """The tree's nodes by their exact type in the order of `ast.walk`; all of them under `ast.AST`."""
        if gone := self.gone:
            self.kinds = {kind: [node for node in found if node not in gone] for kind, found in self.kinds.items()}
            self.gone = set()
        return self.kinds

    def home(self, node: ast.AST) -> Scope:
        """The scope whose names a node sees."""
        inside, asked = node, []
        while (found := self.homes.get(inside)) is None and inside in self.parents:
            asked.append(inside)
            inside, part = self.parents[inside], inside
            made = self.scopes.get(inside)
            if made is not None and (isinstance(part, ast.stmt) or part is getattr(inside, "body", None)):
                found = made
                break
        found = found or self.scope
        self.homes.update(dict.fromkeys(asked, found))
        return found

    def leave_out(self, block: Sequence[ast.stmt]) -> None:
        """Say of some statements that they are no longer in the tree."""
        for node in block:
            self.gone.update(walk(node))
            above = [item.lineno for item in getattr(node, "decorator_list", ())]
            self.cut.append((min([node.lineno, *above]), node.end_lineno or node.lineno))

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
            path=self.path, line=line, column=offset + 1, end_line=getattr(node, "end_lineno", None), text=text
        )

    def _cell(self, line: int) -> str:
        found = None
        for first, number in self.cells:
            if first > line:
                break
            found = (first, number)
        return f"[cell {found[1]}, line {line - found[0] + 1}] " if found else ""
