"""What is true of a name after two branches: the join of two abstract values."""

from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.values import MISSING, NOTHING, AbstractValue, ClassSymbol, Function, Module, same_value

_KEYS = 2000
"""Entries of two dicts together that are joined one by one; of larger ones the first is kept."""


def join(a: AbstractValue, b: AbstractValue) -> AbstractValue:
    """What is true of both; a known type wins over none, for a name is rarely two kinds of object."""
    if a is b or b is NOTHING:
        return a.widened() if a is not b else a
    if a is NOTHING:
        return b.widened()
    for one, other in ((a, b), (b, a)):
        if one.value is None and (other.type or other.ref or other.definition or other.klass):
            return other.widened()
    same = same_value(a.value, b.value)
    return AbstractValue(
        type=join_types(a.type, b.type),
        value=a.value if same else MISSING,
        origin=a.origin,
        device=join_devices(a.device, b.device),
        ref=a.ref if a.ref == b.ref else None,
        definition=_join_definitions(a.definition, b.definition),
        klass=_join_klasses(a.klass, b.klass),
        owner=a.owner or b.owner,
        attrs=_join_attrs(a.attrs, b.attrs),
        items=_join_items(a.items, b.items),
        keys=_join_keys(a.keys, b.keys),
        open=a.open or b.open or ((a.keys is None) != (b.keys is None)),
        elem=join(a.elem, b.elem) if a.elem and b.elem else a.elem or b.elem,
        test=a.test if a.test is b.test or (same and not b.test) else None,
        option=a.option or b.option,
        optional=a.optional or b.optional,
        guessed=a.guessed and b.guessed,
        made=tuple(dict.fromkeys(a.made + b.made))[:8],
    )


def _join_klasses(a: ClassSymbol | None, b: ClassSymbol | None) -> ClassSymbol | None:
    """The nearest class that both descend from; the known one where only one is."""
    if a is b or a is None or b is None:
        return a or b
    others = b.lineage()
    return next((klass for klass in a.lineage() if klass in others), None)


def _join_definitions(
    a: Function | ClassSymbol | Module | None, b: Function | ClassSymbol | Module | None
) -> Function | ClassSymbol | Module | None:
    if isinstance(a, ClassSymbol) and isinstance(b, ClassSymbol):
        return _join_klasses(a, b)
    return a if a is b else None


def join_devices(a: str | None, b: str | None) -> str | None:
    """A tensor on the one or on the other."""
    if a == b or b is None:
        return a
    if a is None:
        return b
    return "maybe-cuda" if "cuda" in a or "cuda" in b else "cpu"


def join_types(a: str | None, b: str | None) -> str | None:
    """The nearest kind that holds both."""
    if a == b or b is None:
        return a
    if a is None:
        return b
    return kind_of(a) if kind_of(a) == kind_of(b) else None


def _join_attrs(
    a: dict[str, AbstractValue] | None, b: dict[str, AbstractValue] | None
) -> dict[str, AbstractValue] | None:
    if a is b or not b:
        return a
    if not a:
        return b
    return {k: join(a[k], b[k]) if k in a and k in b else (a.get(k) or b[k]) for k in a.keys() | b.keys()}


def _join_items(
    a: tuple[AbstractValue, ...] | None, b: tuple[AbstractValue, ...] | None
) -> tuple[AbstractValue, ...] | None:
    if a is b:
        return a
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(join(x, y) for x, y in zip(a, b, strict=True))


def _join_keys(
    a: dict[str, AbstractValue] | None, b: dict[str, AbstractValue] | None
) -> dict[str, AbstractValue] | None:
    if a is b:
        return a
    if a is None or b is None or len(a) + len(b) > _KEYS:
        return a or b
    both = {}
    for key in [*a, *(k for k in b if k not in a)]:
        x, y = a.get(key), b.get(key)
        both[key] = join(x, y) if x is not None and y is not None else (x or y or NOTHING).widened()
    return both
