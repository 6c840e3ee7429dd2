"""What conversions of plain values give: `int(x)`, `np.array(name)`, `name.lower()`."""

from collections.abc import Callable

from gpudoctor.vitals.source.values import MISSING, NOTHING, AbstractValue

_FUNCTIONS: dict[str, Callable[..., object]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
}
_KINDS = {"int": "number", "float": "number", "str": "str", "bool": "bool"}
_KEPT = frozenset({"numpy.array", "numpy.asarray", "numpy.str_", "numpy.bytes_", "numpy.string_"})
"""What holds a single value as it is: it equals what it was made of."""
_TEXT: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "casefold": str.casefold,
    "capitalize": str.capitalize,
    "title": str.title,
    "strip": str.strip,
    "encode": str,
    "decode": str,
    "astype": str,
    "item": str,
}
"""Methods of a text, or of an array that holds one. Bytes count as their text: code compares like with like."""
_MOST = 10**15
_LONGEST = 100


def call_result(name: str, method: str, base: AbstractValue, args: list[AbstractValue]) -> AbstractValue | None:
    """What a call gives that only writes a value in another way; None when it does something else."""
    if base is NOTHING and name in _FUNCTIONS:
        return _converted(name, args)
    if name in _KEPT and args and args[0].known and args[0].items is None:
        return _as_given(args[0].value, args[:1])
    text = base.value
    # With an argument, `strip(".")` gives something else; a codec and a type change nothing here.
    changes = method in _TEXT and (not args or method in ("encode", "decode", "astype"))
    if changes and isinstance(text, str) and len(text) <= _LONGEST:
        return _as_given(_TEXT[method](text), [base])
    return None


def _converted(name: str, args: list[AbstractValue]) -> AbstractValue | None:
    if not args or any(not a.known for a in args):
        if args and args[0].type == "rank":
            return args[0].replace(value=MISSING)
        kind = _KINDS.get(name)
        option = any(a.option for a in args)
        return AbstractValue(type=kind, option=option) if kind and (option or args) else None
    values = [a.value for a in args]
    try:
        if isinstance(values[0], str) and len(values[0]) > _LONGEST:
            return NOTHING
        # Bytes count as their text, so the codec of `str(name, "utf-8")` is nothing to decode with.
        value = _FUNCTIONS[name](*values[:1] if name == "str" else values)
    except (TypeError, ValueError, OverflowError):
        return NOTHING
    return _as_given(value, args)


def _as_given(value: object, args: list[AbstractValue]) -> AbstractValue:
    """A value that some others were turned into."""
    if not isinstance(value, int | float | str | bool) or (isinstance(value, int) and abs(value) > _MOST):
        return NOTHING
    origin = next((a.origin for a in args if a.origin != "literal"), "literal")
    return AbstractValue(value=value, origin=origin, option=any(a.option for a in args))
