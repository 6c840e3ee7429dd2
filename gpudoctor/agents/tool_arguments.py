"""Arguments of a tool: their JSON schema, and the sentence that says which one is wrong."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpudoctor.errors import UsageError

LONGEST_WORD = 32_768
MOST_WORDS = 1_000
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
_SHOWN = 80


def checked(schema: Mapping[str, Any], given: object, tool: str) -> dict[str, Any]:
    """The arguments, once each fits its schema; defaults are filled in. Raises `UsageError`."""
    if not isinstance(given, dict):
        raise UsageError(f"{tool}: the arguments are not an object; give {{}} for none")
    known: Mapping[str, Mapping[str, Any]] = schema["properties"]
    for name in given:
        if name not in known:
            raise UsageError(f"{tool}: there is no argument {_shown(name)}; there are: {', '.join(known)}")
    for name in schema.get("required", ()):
        if given.get(name) is None:
            raise UsageError(f"{tool}: the argument {name} is missing ({known[name]['description']})")
    found = {name: rule["default"] for name, rule in known.items() if "default" in rule}
    for name, value in given.items():
        if value is not None:
            _check(f"{tool}: {name}", known[name], value)
            found[name] = value
    return found


def _check(where: str, rule: Mapping[str, Any], value: object) -> None:
    """Raise `UsageError` unless the value fits the rule of a schema, of those that our tools use."""
    kinds: Sequence[str] = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    fitting = [kind for kind in kinds if _is(value, kind)]
    if not fitting:
        raise UsageError(f"{where} is {_shown(value)}; it must be {' or '.join(map(_article, kinds))}")
    if "enum" in rule and value not in rule["enum"]:
        raise UsageError(f"{where} is {_shown(value)}; it must be one of: {', '.join(map(str, rule['enum']))}")
    if isinstance(value, str):
        _check_word(where, value)
    elif isinstance(value, list):
        if len(value) > MOST_WORDS:
            raise UsageError(f"{where} has {len(value):,} items; the most is {MOST_WORDS:,}")
        for number, item in enumerate(value):
            _check(f"{where}[{number}]", rule["items"], item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_word(f"{where} key", str(key))
            _check(f"{where}.{_shown(key)}", rule["additionalProperties"], item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = rule.get("minimum", float("-inf")), rule.get("maximum", float("inf"))
        if not low <= value <= high:  # NaN too
            raise UsageError(f"{where} is {value:g}; it must be from {low:g} to {high:g}")


def _check_word(where: str, word: str) -> None:
    if len(word) > LONGEST_WORD:
        raise UsageError(f"{where} has {len(word):,} characters; the most is {LONGEST_WORD:,}")
    if "\0" in word:
        raise UsageError(f"{where} contains a NUL byte; remove it")
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{where} contains a lone surrogate, which is no character; remove it") from None


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def plain_names(names: Sequence[str], tool: str, argument: str) -> list[str]:
    """File names that no command takes for a flag. Raises `UsageError` for one that it would."""
    for name in names:
        if name.startswith("-"):
            raise UsageError(f"{tool}: {argument} {_shown(name)} begins with a hyphen, as flags do; write ./{name}")
        if not name:
            raise UsageError(f"{tool}: {argument} is empty; name a file, or leave the argument out")
    return list(names)


def existing_folder(folder: str, tool: str) -> str:
    """The absolute path of a folder. Raises `UsageError` if it is none."""
    path = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(path):
        raise UsageError(f"{tool}: folder {_shown(folder)} does not exist; name the project's folder")
    return path
