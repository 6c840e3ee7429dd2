"""Which checks to run: by code, topic or name."""

import json
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from importlib.resources import files

from gpudoctor.engine.registry import Registry
from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model import Code
from gpudoctor.model.records import frozen

ALL = "ALL"
_NEAR = 0.5
"""Similarity (difflib's ratio) from which a name counts as near."""


def topic_of(code: str) -> str:
    """The letters of a code: `DATA` of `DATA001`."""
    return code.rstrip("0123456789")


def nearest(word: str, choices: Iterable[str]) -> str:
    """A clause that names the nearest of the choices (the first of equals), or "" when none is near."""
    near = [(SequenceMatcher(a=word, b=choice).ratio(), choice) for choice in choices]
    best = max(near, key=lambda item: item[0], default=(0.0, ""))
    return say("; did you mean {best}?", best=best[1]) if best[0] >= _NEAR else ""


@frozen
class Retired:
    """A check that is gone; its code stays reserved."""

    code: str
    name: str
    answer: str


def retired_check(word: str) -> Retired | None:
    """The check that is gone and had this code or name."""
    rows = json.loads(files(__package__).joinpath("retired.json").read_text(encoding="utf-8"))["retired"]
    return next((Retired(**row) for row in rows if word.strip().lower() in (row["code"].lower(), row["name"])), None)


def resolve(selector: str, registry: Registry, where: str) -> frozenset[Code]:
    """The codes that a code, a topic, a name or ALL stands for; none for a check that is gone.

    Raises `UsageError` for an unknown one.
    """
    word = selector.strip()
    if word.upper() == ALL:
        return frozenset(registry.checks)
    codes = [code for code in registry.checks if word.upper() in (code, topic_of(code))]
    by_name = registry.by_name(word.lower())
    if by_name is not None:
        codes.append(by_name.code)
    if not codes and retired_check(word) is None:
        topics = {topic_of(code) for code in registry.checks}
        names = [check.name for check in registry.checks.values()]
        hint = nearest(word.upper(), [*registry.checks, *topics]) or nearest(word.lower(), names)
        raise UsageError(
            "{where}: unknown code {selector!r}{hint} (`gpudoctor list` shows codes, topics and names)",
            where=where,
            selector=selector,
            hint=hint or "",
        )
    return frozenset(codes)


@frozen
class Selection:
    """What to run and what to silence."""

    selected: frozenset[Code]
    ignored: dict[Code, str | None]
    """Code to the user's reason; the check runs and its findings are silenced."""


def make_selection(
    registry: Registry, select: Sequence[tuple[str, str]], ignore: Sequence[tuple[str, str, str | None]]
) -> Selection:
    """Resolve selectors.

    `select` holds pairs of a selector and where it was written; empty means all. `ignore` adds the reason.
    """
    chosen = [resolve(word, registry, where) for word, where in select]
    for gone in filter(None, (retired_check(word) for word, _ in select)):
        raise UsageError("{code} ({name}) is gone: {answer}", code=gone.code, name=gone.name, answer=gone.answer)
    ignored: dict[Code, str | None] = {}
    for word, where, reason in ignore:
        ignored |= dict.fromkeys(resolve(word, registry, where), reason)
    return Selection(selected=frozenset().union(*chosen) if chosen else frozenset(registry.checks), ignored=ignored)
