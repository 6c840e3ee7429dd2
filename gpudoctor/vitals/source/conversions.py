"""What conversions of plain values give: `int(x)`, `max(a, b)`, `name.lower()`."""

from collections.abc import Callable

from gpudoctor.vitals.source.values import MISSING, NOTHING, AbstractValue

_FUNCTIONS: dict[str, Callable[..., object]] = {
    kind.__name__: kind for kind in (int, float, bool, str, min, max, abs, round)
}
_KINDS = {"int": "number", "float": "number", "str": "str", "bool": "bool"}
_TEXT: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_LONGEST = 100


def call_result(name: str, method: str, base: AbstractValue, args: list[AbstractValue]) -> AbstractValue | None:
    """What a call gives that only writes a value in another way; None when it does something else."""
    if base is NOTHING and name in _FUNCTIONS and args:
        return _converted(name, args)
    text = base.value
    if method in _TEXT and not args and isinstance(text, str) and len(text) <= _LONGEST:
        return AbstractValue(value=_TEXT[method](text), origin=base.origin, option=base.option)
    return None


def _converted(name: str, args: list[AbstractValue]) -> AbstractValue | None:
    option = any(arg.option for arg in args)
    values = [arg.value for arg in args]
    if MISSING in values:
        if args[0].type == "rank":
            return args[0].replace(value=MISSING)
        return AbstractValue(type=_KINDS[name], option=option) if name in _KINDS else None
    try:
        value = _FUNCTIONS[name](*values)
    except (TypeError, ValueError, OverflowError):
        return NOTHING
    if not isinstance(value, int | float | str) or len(str(values[0])) > _LONGEST:
        return NOTHING
    origin = next((arg.origin for arg in args if arg.origin != "literal"), "literal")
    return AbstractValue(value=value, origin=origin, option=option)
