"""What the reader knows about one name or expression: its type, value, device, parts and meaning as a test."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, TypeAlias

from gpudoctor.model.signs.source import Guard, GuardKind, Known, Literal, Unknown, Value

if TYPE_CHECKING:
    from gpudoctor.vitals.source.symbols import ClassSymbol, Function, Module

MODULE = "torch.nn.Module"
TENSOR = "torch.Tensor"
BATCH = "batch"
"""Internal type of a batch not yet taken apart: a tensor, or a dict or tuple of them."""
OPTIMIZER = "torch.optim.Optimizer"
SCHEDULER = "torch.optim.lr_scheduler.LRScheduler"
LOADER = "torch.utils.data.DataLoader"
DATASET = "torch.utils.data.Dataset"
DEVICE = "torch.device"


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Condition:
    """A condition, as far as it says how often what it guards runs."""

    kind: GuardKind
    period: Value | None = None
    value: Value | None = None
    negated: bool = False
    """Whether it is the opposite of its kind: every pass but the Nth, no failure."""
    subject: frozenset[str] = frozenset()
    """Names whose change makes the condition change: the step counter."""

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


@dataclass(slots=True, eq=False, repr=False, match_args=False)
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
    graph: bool = False
    """Whether it is a tensor that carries its autograd graph."""
    optional: bool = False
    """Whether it is a parameter that some calls give and others leave at None."""
    guessed: bool = False
    """Whether the type was told from the name alone."""
    made: ast.Call | None = None
    """The call that built it."""
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


def tensor(device: str | None = None, graph: bool = False) -> AbstractValue:
    """A tensor."""
    return AbstractValue(type=TENSOR, device=device, graph=graph)


def without_graph(thing: AbstractValue) -> AbstractValue:
    """The same as a call under no_grad gives it: neither itself nor what it holds carries a graph."""
    if thing.graph:
        return thing.replace(graph=False)
    items = tuple(map(without_graph, thing.items)) if thing.items is not None else None
    elem = without_graph(thing.elem) if thing.elem is not None and thing.elem.graph else thing.elem
    if elem is thing.elem and (
        items is None or all(a is b for a, b in zip(items, thing.items or (), strict=True))
    ):
        return thing
    return thing.replace(items=items, elem=elem)


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


def same(a: AbstractValue, b: AbstractValue) -> bool:
    """Whether two things say the same, as far as another interpretation of a function would differ."""
    if a is b:
        return True
    return (
        a.type == b.type
        and (same_value(a.value, b.value))
        and a.device == b.device
        and a.ref == b.ref
        and a.definition is b.definition
        and a.klass is b.klass
        and a.option == b.option
        and a.graph == b.graph
        and a.optional == b.optional
        and _same_parts(a, b)
    )


def _same_parts(a: AbstractValue, b: AbstractValue) -> bool:
    if (a.attrs is None) != (b.attrs is None) or (a.elem is None) != (b.elem is None):
        return False
    for x, y in ((a.items, b.items), (a.keys, b.keys)):
        if (x is None) != (y is None) or (x and y and len(x) != len(y)):
            return False
    if a.keys and b.keys and a.keys is not b.keys:
        return a.keys.keys() == b.keys.keys() and all(
            same_value(a.keys[k].value, b.keys[k].value) for k in a.keys
        )
    if a.items and b.items and a.items is not b.items:
        return all(
            x.type == y.type and same_value(x.value, y.value) for x, y in zip(a.items, b.items, strict=True)
        )
    return True


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class BindingHistory:
    """What each name of one scope held, over the course of the scope."""

    names: dict[str, list[tuple[int, AbstractValue]]] = field(default_factory=dict)
    clock: int = 0
    outer: "BindingHistory | None" = None

    def note(self, name: str, thing: AbstractValue) -> None:
        """The name holds the thing from now on."""
        self.clock += 1
        self.names.setdefault(name, []).append((self.clock, thing))

    def at(self, name: str, time: int) -> AbstractValue | None:
        """What the name held at a time; the last thing for names of an outer scope."""
        entries = self.names.get(name)
        if entries is None:
            return self.outer.at(name, 1 << 60) if self.outer is not None else None
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            if entries[middle][0] <= time:
                low = middle + 1
            else:
                high = middle
        return entries[low - 1][1] if low else None

    def all_names(self) -> Iterator[str]:
        """Names of this scope and the outer ones."""
        yield from self.names
        if self.outer is not None:
            yield from (name for name in self.outer.all_names() if name not in self.names)
