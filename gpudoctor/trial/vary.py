"""Changes that the user names: values of an override, an argument or a config file, or another command."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.trial.override_table import OVERRIDES, is_known
from gpudoctor.trial.trial_runner import Arm

_MOST = 12
"""Values of one `--vary`: each takes several runs."""
AGAINST = "against"


def varied(text: str, command: Sequence[str]) -> list[tuple[str, Arm]]:
    """Titles and arms of `KEY=V1,V2,...`. Raises `UsageError`.

    KEY is an argument of the command (with its dashes or without, or Hydra's `key=value`), an override, or a
    key in a config file (`ds.json:zero_optimization.stage`).
    """
    key, given, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not key.strip() or not given or not listed:
        raise UsageError(say("--vary {text}: write KEY=V1,V2: --vary batch-size=8,16", text=text))
    if len(listed) > _MOST:
        raise UsageError(
            say("--vary {text}: {number} values; give at most {most}", text=text, number=len(listed), most=_MOST)
        )
    return [(f"{key}={value}", with_value(key.strip(), value, command)) for value in listed]


def with_value(key: str, value: str, command: Sequence[str]) -> Arm:
    """The arm of one value. Raises `UsageError` for a key that is none of these."""
    name = f"{key}={value}"
    flag = _flag(key, command)
    if flag is not None:
        return Arm(name=name, arguments={flag: value})
    path, _, inside = key.rpartition(":")
    if path and Path(path).suffix.lower() in _JSON | _YAML:
        path, text = with_setting(path, inside, value)
        return Arm(name=name, texts={path: text})
    if key.startswith("env."):
        return Arm(name=name, environment={key.removeprefix("env."): value})
    if is_known(key):
        return Arm(name=name, overrides={key: value})
    if "." not in key:
        return Arm(name=name, arguments={f"--{key}": value})
    known = ", ".join(sorted(OVERRIDES))
    raise UsageError(
        say("{key} is neither an argument of the command nor an override; the overrides: {known}", key=key, known=known)
    )


def against(text: str) -> tuple[str, Arm]:
    """Title and arm of another command. Raises `UsageError` where it cannot be read."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(say("--against {text!r}: {error}", text=text, error=error)) from None
    if not words:
        raise UsageError("--against: no command was given; quote it: --against 'python other.py'")
    if shutil.which(words[0]) is None:
        raise UsageError(say("--against: {words}: command not found", words=words[0]))
    return text, Arm(name=AGAINST, command=tuple(words))


def _flag(key: str, command: Sequence[str]) -> str | None:
    """The argument as the command spells it; None where it has none by that name."""
    spellings = (
        [key] if key.startswith("-") else [f"--{key}", f"--{key.replace('_', '-')}", f"--{key.replace('-', '_')}"]
    )
    for word in command:
        for flag in (*spellings, key, f"+{key}", f"++{key}"):
            if (word == flag and flag.startswith("-")) or word.startswith(flag + "="):
                return flag
    return key if key.startswith("-") else None


# `--vary ds.json:zero_optimization.stage=1,2`: a value of a config file, in the runs alone.

_JSON, _YAML = {".json"}, {".yaml", ".yml"}
_AUTO = "auto"
"""What transformers fills in: it stands for a value of any kind."""


def with_setting(name: str, key: str, value: str) -> tuple[str, str]:
    """Real path of a config file, and its text with another value.

    Raises `UsageError` where the file cannot be read, or the key is not in it or a section.
    """
    import yaml

    is_json = Path(name).suffix.lower() in _JSON
    load: Callable[[str], Any] = json.loads if is_json else yaml.safe_load
    unreadable = (ValueError, RecursionError, yaml.YAMLError)
    try:
        document = load(Path(name).read_text(encoding="utf-8-sig"))
    except (OSError, *unreadable) as error:
        words = " ".join(str(error).split())
        raise UsageError(say("--vary {name}: cannot be read: {error}", name=name, error=words)) from None
    parts = key.split(".")
    section: Any = document
    for depth, part in enumerate(parts):
        found: Any = None
        if isinstance(section, dict):
            found = next((item for item in section if str(item) == part), None)
        elif isinstance(section, list) and part.isdecimal() and int(part) < len(section):
            found = int(part)
        if found is None:
            key_there = ".".join(parts[: depth + 1])
            raise UsageError(say("--vary {name}: no key {key}", name=name, key=key_there))
        if depth < len(parts) - 1:
            section = section[found]
    try:
        given = load(value)
    except unreadable:
        given = value
    section[found] = _value(name, key, value, given, section[found])
    text: str = json.dumps(document, indent=2) + "\n" if is_json else yaml.safe_dump(document, sort_keys=False)
    return os.path.realpath(name), text


def _value(name: str, key: str, text: str, given: Any, present: Any) -> Any:
    """The given value; a text stays one. Raises `UsageError` for a section."""
    if isinstance(present, (dict, list)):
        raise UsageError(say("--vary {name}: {key} is a section; name a key in it", name=name, key=key))
    if isinstance(present, str) and present != _AUTO:
        return text
    if isinstance(present, float) and isinstance(given, str):
        with suppress(ValueError):
            return float(given)  # 1e-4 is a text to YAML 1.1
    return given
