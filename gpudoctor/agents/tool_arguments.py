"""Arguments of a tool, checked against its JSON schema; the sentence says which one is wrong."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpudoctor.errors import UsageError

LONGEST_WORD = 32_768
MOST_WORDS = 1_000
_SHOWN = 80


def checked(schema: Mapping[str, Any], given: object, tool: str) -> dict[str, Any]:
    """The arguments, once each fits its schema; defaults are filled in. Raises `UsageError`."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if not isinstance(given, dict):
        raise UsageError(f"{tool}: the arguments are not an object; give {{}} for none")
    known: Mapping[str, Mapping[str, Any]] = schema["properties"]
    for name in given:
        if name not in known:
            raise UsageError(f"{tool}: there is no argument {_shown(name)}; there are: {', '.join(known)}")
    told = {name: value for name, value in given.items() if value is not None}
    for name in schema.get("required", ()):
        if name not in told:
            raise UsageError(f"{tool}: the argument {name} is missing ({known[name]['description']})")
    for name, value in told.items():
        _check_size(f"{tool}: {name}", value)
    if error := best_match(Draft202012Validator(schema).iter_errors(told)):
        raise UsageError(f"{tool}: {error.json_path.removeprefix('$.')}: {error.message}")
    return {name: rule["default"] for name, rule in known.items() if "default" in rule} | told


def _check_size(where: str, value: object) -> None:
    """Raise `UsageError` for what no schema refuses: endless texts and lists, NUL, surrogates, NaN."""
    if isinstance(value, str):
        if len(value) > LONGEST_WORD:
            raise UsageError(f"{where} has {len(value):,} characters; the most is {LONGEST_WORD:,}")
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise UsageError(f"{where} contains a NUL byte or a lone surrogate; remove it")
    elif isinstance(value, list | dict):
        if len(value) > MOST_WORDS:
            raise UsageError(f"{where} has {len(value):,} items; the most is {MOST_WORDS:,}")
        for item in value if isinstance(value, list) else (*value, *value.values()):
            _check_size(where, item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where} is {value}; give a finite number")


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
