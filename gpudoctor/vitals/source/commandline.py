"""One command-line option: its name, default, and the value that a launch line gives it."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudoctor.vitals.source.values import MISSING, AbstractValue

_TRUE = frozenset(("true", "yes", "y", "t", "1", "on"))
_FALSE = frozenset(("false", "no", "n", "f", "0", "off", "none"))


@dataclass(slots=True, kw_only=True, eq=False, repr=False, match_args=False)
class Option:
    """One option of a parser."""

    name: str
    """Its attribute on the namespace."""
    flag: str
    """How messages name it: `--workers`."""
    flags: tuple[str, ...]
    """Every spelling; none for a positional."""
    kind: type | None
    """`int`, `float`, `str`, `bool`; None when it cannot be told."""
    text: str
    default: object = MISSING
    switch: bool | None = None
    """The value that the bare flag gives, for flags without a value."""
    many: bool = False


def read_option(node: ast.Call, args: Sequence[AbstractValue], keywords: Mapping[str, AbstractValue]) -> Option | None:
    """The option that `add_argument(...)` or `@click.option(...)` declares."""
    flags = [a.value for a in args if isinstance(a.value, str)]
    if not flags or not all(flags):
        return None
    dashed = [flag for flag in flags if flag.startswith("-")]
    plain = [flag for flag in flags if not flag.startswith("-")]
    long = next((flag for flag in dashed if flag.startswith("--")), None) or (dashed[0] if dashed else flags[0])
    action = _plain(keywords.get("action"))
    name = _plain(keywords.get("dest"))
    off = None
    if "/" in long:  # click: --shout/--no-shout
        long, _, off = long.partition("/")
    if not isinstance(name, str):
        name = plain[0] if plain and dashed else long.lstrip("-").replace("-", "_")
    switch, default = _switch(action, keywords)
    if off is not None and switch is None:
        switch = True
    nodes = {k.arg: k.value for k in node.keywords}
    kind = _kind(nodes.get("type"))
    default = _default(default, kind, keywords)
    if kind is None and default is not MISSING and default is not None:
        kind = type(default)
    spellings = tuple(flag.partition("/")[0] for flag in dashed) + ((off,) if off else ())
    return Option(
        name=name,
        flag=long,
        flags=spellings,
        kind=kind,
        text=long,
        default=default,
        switch=switch,
        many="nargs" in keywords,
    )


def _plain(thing: AbstractValue | None) -> object:
    return thing.value if thing is not None and thing.known else None


def _switch(action: object, keywords: Mapping[str, AbstractValue]) -> tuple[bool | None, object]:
    if action == "store_true":
        return True, False
    if action == "store_false":
        return False, True
    named = keywords.get("action")
    if named is not None and (named.ref or "").endswith("BooleanOptionalAction"):
        return True, None
    if _plain(keywords.get("is_flag")) is True:
        return True, False
    if action == "store_const":
        return None, MISSING if "const" not in keywords else None
    return None, MISSING if _plain(keywords.get("required")) is True else None


def _default(default: object, kind: type | None, keywords: Mapping[str, AbstractValue]) -> object:
    passed = keywords.get("default")
    if passed is None:
        return default
    if passed.items is not None:
        parts = tuple(item.value for item in passed.items)
        return parts if MISSING not in parts else MISSING
    if passed.ref is not None and passed.ref.endswith("SUPPRESS"):
        return MISSING
    if isinstance(passed.value, str) and kind in (int, float):
        return word_value(passed.value, kind)
    return passed.value


def _kind(node: ast.expr | None) -> type | None:
    if isinstance(node, ast.Name):
        known = {"int": int, "float": float, "str": str, "bool": bool, "eval": None}
        if node.id in known:
            return known[node.id]
        return bool if "bool" in node.id.lower() else None
    if isinstance(node, ast.Attribute) and "bool" in node.attr.lower():
        return bool
    if isinstance(node, ast.Lambda) and "true" in ast.unparse(node).lower():
        return bool
    return None


def given(option: Option, words: Sequence[str]) -> object:
    """The value that the launch line gives an option; MISSING when it does not. The last one wins."""
    found: object = MISSING
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        negative = flag.startswith("--no-") and f"--{flag[5:]}" in option.flags
        if not negative and not _matches(option, flag):
            continue
        if negative:
            found = False
        elif equals:
            found = word_value(value, option.kind)
        elif option.switch is not None and (
            index + 1 >= len(words) or not _boolean(words[index + 1]) or option.kind is None
        ):
            found = option.switch
        elif option.many:
            found = _several(words[index + 1 :], option.kind)
        elif index + 1 < len(words) and not words[index + 1].startswith("--"):
            found = word_value(words[index + 1], option.kind)
        else:
            found = True if option.kind in (bool, None) else MISSING
    return found


def _matches(option: Option, flag: str) -> bool:
    if not flag.startswith("-"):
        return False
    if flag in option.flags:
        return True
    return len(flag) > 4 and flag.startswith("--") and option.flags == (option.flag,) and option.flag.startswith(flag)


def _boolean(word: str) -> bool:
    return word.lower() in _TRUE or word.lower() in _FALSE


def _several(words: Sequence[str], kind: type | None) -> object:
    values = []
    for word in words:
        if word.startswith("--"):
            break
        values.append(word_value(word, kind))
    return tuple(values) if MISSING not in values else MISSING


def word_value(word: str, kind: type | None) -> object:
    """A word of the command line as a value of a kind; MISSING when it is none."""
    if "$" in word or "{{" in word:
        return MISSING  # the shell's or a template's to fill
    try:
        if kind is int:
            return int(word)
        if kind is float:
            return float(word)
    except ValueError:
        return MISSING
    if kind is bool:
        if not _boolean(word):
            return MISSING
        return word.lower() in _TRUE
    if kind is None:
        return _guess(word)
    return word


def _guess(word: str) -> object:
    for convert in (int, float):
        try:
            return convert(word)
        except ValueError:
            continue
    return word
