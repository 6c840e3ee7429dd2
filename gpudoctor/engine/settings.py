"""The user's own settings: `[tool.gpudoctor]` in pyproject.toml, or gpudoctor.toml."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from gpudoctor.engine.registry import Registry
from gpudoctor.engine.selection import nearest, resolve
from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model import Code
from gpudoctor.model.external_files import read_file, read_text
from gpudoctor.model.read_limits import SETTINGS
from gpudoctor.model.records import field, frozen

Toml: TypeAlias = "str | int | float | bool | list[Toml] | dict[str, Toml] | object"

FAIL_ON = ("error", "warning", "note", "never")
_KEYS = ("select", "ignore", "per-file-ignores", "fail-on", "thresholds", "baseline", "preview")


@frozen
class Settings:
    """Validated settings; every field has its default when there is no file."""

    path: Path | None = None
    select: tuple[str, ...] = ()
    """Selectors; empty is all."""
    ignore: tuple[tuple[str, str | None], ...] = ()
    """Selector and reason."""
    per_file_ignores: tuple[tuple[str, frozenset[Code]], ...] = ()
    """Glob over paths and the codes silenced there."""
    fail_on: str = "error"
    thresholds: Mapping[Code, Mapping[str, float]] = field(default_factory=dict)
    baseline: Path | None = None
    """The baseline file, relative to the settings file's folder."""
    preview: bool = False

    @property
    def where(self) -> str:
        """How messages name the file."""
        return str(self.path) if self.path else "settings"


def find_settings_file(start: Path) -> Path | None:
    """The nearest gpudoctor.toml, or pyproject.toml that has our table, from a folder upwards."""
    folder = start if os.path.isdir(start) else start.parent
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        own = place / "gpudoctor.toml"
        if os.path.isfile(own):
            return own
        project = place / "pyproject.toml"
        if os.path.isfile(project) and _mentions_us(project):
            return project
        if os.path.exists(place / ".git"):
            return None
    return None


def _mentions_us(path: Path) -> bool:
    try:
        return b"tool.gpudoctor" in read_file(path, SETTINGS)
    except OSError:
        return False


def read_settings(path: Path, registry: Registry) -> Settings:
    """Read and validate a settings file; `UsageError` names the file, the key and the nearest right one."""
    table = _load_table(path)
    for key in table:
        if key not in _KEYS:
            raise UsageError(
                "{path}: unknown key {key!r}{nearest} (known: {keys})",
                path=path,
                key=key,
                nearest=nearest(key, _KEYS),
                keys=", ".join(_KEYS),
            )
    select = _strings(table.get("select", []), path, "select")
    ignore = _reasons(table.get("ignore", []), path)
    for word in (*select, *(word for word, _ in ignore)):
        resolve(word, registry, str(path))
    baseline, preview = table.get("baseline"), table.get("preview", False)
    known = baseline is None or (isinstance(baseline, str) and baseline != "")
    _must(known, path, "baseline", baseline, say("the path of a baseline file"))
    _must(isinstance(preview, bool), path, "preview", preview, say("true or false"))
    fail_on = table.get("fail-on", "error")
    _must(fail_on in FAIL_ON, path, "fail-on", fail_on, ", ".join(FAIL_ON))
    return Settings(
        path=path,
        select=select,
        ignore=ignore,
        per_file_ignores=_per_file(table.get("per-file-ignores", {}), path, registry),
        fail_on=str(fail_on),
        thresholds=_thresholds(table.get("thresholds", {}), path, registry),
        baseline=None if baseline is None else path.parent / str(baseline),
        preview=bool(preview),
    )


def _load_table(path: Path) -> dict[str, Toml]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(read_text(path, SETTINGS))
    except OSError as error:
        raise UsageError("{path}: cannot be read: {reason}", path=path, reason=error.strerror) from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a number of 5,000 digits
        raise UsageError("{path}: not valid TOML: {reason}", path=path, reason=error) from error
    if path.name == "pyproject.toml":
        tool = data.get("tool", {})
        data = tool.get("gpudoctor", {}) if isinstance(tool, dict) else tool
    return _table(data, path, "tool.gpudoctor", say("a table"))


def _must(right: bool, path: Path, key: str, value: Toml, should: str) -> None:
    """Raise `UsageError` for a value of another kind than a key takes."""
    if not right:
        raise UsageError(
            "{path}: {key} is {value!r}; it should be {should}", path=path, key=key, value=value, should=should
        )


def _strings(value: Toml, path: Path, key: str) -> tuple[str, ...]:
    right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    _must(right, path, key, value, say("a list of strings"))
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _table(value: Toml, path: Path, key: str, should: str) -> dict[str, Toml]:
    _must(isinstance(value, dict), path, key, value, should)
    return value if isinstance(value, dict) else {}


def _reasons(value: Toml, path: Path) -> tuple[tuple[str, str | None], ...]:
    """`ignore` may be a list, or a table of code to reason."""
    if isinstance(value, dict) and all(isinstance(reason, str) for reason in value.values()):
        return tuple((word, str(reason)) for word, reason in value.items())
    return tuple((word, None) for word in _strings(value, path, "ignore"))


def _per_file(value: Toml, path: Path, registry: Registry) -> tuple[tuple[str, frozenset[Code]], ...]:
    result = []
    for pattern, codes in _table(value, path, "per-file-ignores", say("a table of glob to codes")).items():
        words = _strings(codes, path, f"per-file-ignores.{pattern!r}")
        result.append((pattern, frozenset().union(*(resolve(word, registry, str(path)) for word in words))))
    return tuple(result)


def _thresholds(value: Toml, path: Path, registry: Registry) -> dict[Code, dict[str, float]]:
    """`DATA001.warning = 0.3`, as nested tables or as quoted dotted keys."""
    result: dict[Code, dict[str, float]] = {}
    for key, inner in _table(value, path, "thresholds", say("a table: DATA001.warning = 0.3")).items():
        word, _, tail = key.partition(".")
        names: Mapping[str, Toml] = {tail: inner} if tail else inner if isinstance(inner, dict) else {"": inner}
        codes = resolve(word, registry, say("{path}: thresholds", path=path))
        if not codes:
            continue  # of a check that is gone
        if len(codes) != 1:
            raise UsageError(
                "{path}: thresholds.{word}: thresholds belong to one check, not to a topic", path=path, word=word
            )
        (code,) = codes
        for name, number in names.items():
            result.setdefault(code, {})[name] = _threshold(code, name, number, path, registry)
    return result


def _threshold(code: Code, name: str, number: Toml, path: Path, registry: Registry) -> float:
    known = [item.name for item in registry.checks[code].thresholds]
    if name not in known:
        choices = ", ".join(known) or say("none")
        raise UsageError(
            "{path}: {code} has no threshold {name!r} (it has: {choices})",
            path=path, code=code, name=name, choices=choices,
        )  # fmt: skip
    right = isinstance(number, int | float) and not isinstance(number, bool) and number == number
    _must(right, path, f"thresholds.{code}.{name}", number, say("a number"))
    return float(number) if isinstance(number, int | float) else 0.0


def split_selectors(words: Sequence[str]) -> list[str]:
    """Selectors of a repeatable, comma-separated flag."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]
