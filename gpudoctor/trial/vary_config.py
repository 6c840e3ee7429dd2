"""`--vary ds.json:zero_optimization.stage=1,2`: a value of a config file, in memory; the file stays."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError

_JSON, _YAML = {".json"}, {".yaml", ".yml"}
_AUTO = "auto"
"""What transformers fills in: it stands for a value of any kind."""
_LISTED = 12
_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool,), "true or false"),
    ((int, float), "a number"),
    ((str,), "a text"),
    ((list,), "a list"),
    ((dict,), "a section"),
)


def split_key(key: str) -> tuple[str, str] | None:
    """File and dotted key of `ds.json:zero_optimization.stage`; None for a key of another kind."""
    name, colon, inside = key.rpartition(":")
    if not colon or not name or Path(name).suffix.lower() not in _JSON | _YAML:
        return None
    return name, inside


def with_setting(name: str, key: str, value: str) -> tuple[str, str]:
    """Real path of a config file, and its text with another value.

    Raises `UsageError` where the file cannot be read, the key is not in it, or holds a value of another kind.
    """
    document = _read(name)
    parts = key.split(".")
    section: Any = document
    for depth, part in enumerate(parts):
        found = _entry(section, part)
        if found is None:
            raise UsageError(_absent(name, parts, depth, section))
        if depth == len(parts) - 1:
            section[found] = _value(name, key, value, section[found])
        else:
            section = section[found]
    return os.path.realpath(name), _text(name, document)


def _read(name: str) -> Any:
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
        document = json.loads(text) if _is_json(name) else _yaml().safe_load(text)
    except OSError as error:
        raise UsageError(f"--vary {name}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError, _yaml().YAMLError) as error:
        words = " ".join(str(error).split())
        raise UsageError(f"--vary {name}: not {'JSON' if _is_json(name) else 'YAML'}: {words}") from None
    if not isinstance(document, (dict, list)):
        raise UsageError(f"--vary {name}: it has no keys")
    return document


def _text(name: str, document: Any) -> str:
    if _is_json(name):
        return json.dumps(document, indent=2) + "\n"
    text: str = _yaml().safe_dump(document, sort_keys=False)
    return text


def _entry(section: Any, part: str) -> Any:
    """The key or index of a part; None where it is not there."""
    if isinstance(section, dict):
        return next((key for key in section if str(key) == part), None)
    if isinstance(section, list) and part.isdecimal() and int(part) < len(section):
        return int(part)
    return None


def _absent(name: str, parts: list[str], depth: int, section: Any) -> str:
    where = ".".join(parts[:depth])
    key = ".".join(parts[: depth + 1])
    if not isinstance(section, (dict, list)):
        return f"--vary {name}: {where} is {_kind(section)}, so there is no {key}"
    names = [str(item) for item in section] if isinstance(section, dict) else []
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    there = f"{where or 'it'} has {listed}" if listed else "it is empty"
    return f"--vary {name}: no key {key}; {there}"


def _value(name: str, key: str, given: str, present: Any) -> Any:
    """The given text as a value of the kind that is there. Raises `UsageError`."""
    if isinstance(present, (dict, list)):
        inside = ", ".join(map(str, present)) if isinstance(present, Mapping) else ""
        names = f"; name one of its keys: {inside}" if inside else ""
        raise UsageError(f"--vary {name}: {key} is {_kind(present)}{names}")
    if isinstance(present, str) and present != _AUTO:
        return given
    try:
        value = json.loads(given) if _is_json(name) else _yaml().safe_load(given)
    except (ValueError, _yaml().YAMLError):
        value = given
    if present is None or present == _AUTO or value == _AUTO or _kind(value) == _kind(present):
        return value
    if not _is_json(name) and isinstance(value, str) and _is_number(value):
        return float(value)  # 1e-4 is a text to YAML 1.1
    raise UsageError(f"--vary {name}: {key} is {_kind(present)} ({json.dumps(present)}), and {given} is not")


def _kind(value: Any) -> str:
    return next((words for kinds, words in _KINDS if isinstance(value, kinds)), "nothing")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_json(name: str) -> bool:
    return Path(name).suffix.lower() in _JSON


def _yaml() -> Any:
    import yaml

    return yaml
