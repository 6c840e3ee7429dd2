"""Literals of which every text that a message matches holds one: they are found much faster than the pattern is."""

import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from gpudoctor.model.log_message import LogMessage

if sys.version_info >= (3, 11):
    from re import _parser as sre_parse  # type: ignore[attr-defined]
else:
    import sre_parse

_LONG, _SHORT = 6, 2
"""Letters of a literal that is rare enough, without a look into the groups of its pattern, and of a useful one."""
_ESCAPE = re.compile(r"\\(?:([^\w\s])|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)")
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_GROUP = re.compile(r"\([^()]*\)")
_REPEATED = re.compile(r".(?:[*?+]|\{\d*,?\d*\})[?+]?")
_HIDDEN = {chr(0xE000 + letter): chr(letter) for letter in range(128)}
_SHOWN = str.maketrans({**_HIDDEN, "\1": ""})


def cues_of(message: LogMessage) -> tuple[str, ...]:
    """The message's cues in small letters: its own, else what follows from its pattern."""
    if message.cue == ():
        return _cues_of_pattern(message.pattern)
    return (message.cue,) if isinstance(message.cue, str) else message.cue


@cache
def _cues_of_pattern(pattern: str) -> tuple[str, ...]:
    """A literal of each alternative; raises `ValueError` where one has none."""
    found: list[str] = []
    plain = _plain(pattern)
    begin = 0
    for branch in plain.split("|"):
        end = begin + len(branch)
        literal = max(re.split(r"[\0.^$]+", branch), key=len).translate(_SHOWN)
        if len(literal.strip()) >= _LONG:
            found.append(literal.lower())
        else:
            inner = _literals(sre_parse.parse(pattern[begin:end]))
            if not inner:
                raise ValueError(f"no literal is in every text of {pattern[begin:end]!r}: give the message a cue")
            found += sorted(inner)
        begin = end + 1
    return tuple(dict.fromkeys(found))


def _plain(pattern: str) -> str:
    """The pattern with a zero for each letter of what need not be there literally; every other keeps its place."""
    text = _ESCAPE.sub(lambda found: f"\1{chr(0xE000 + ord(found[1]))}" if found[1] else _zeros(found), pattern)
    text = _CLASS.sub(_zeros, text)
    while "(" in text:
        text = _GROUP.sub(_zeros, text)
    return _REPEATED.sub(_zeros, text)


def _zeros(found: re.Match[str]) -> str:
    return "\0" * len(found[0])


def _literals(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Of a parsed pattern: small-letter texts of which every match has one, the best choice; empty without one."""
    choices: list[frozenset[str]] = []
    run = ""
    for name, value in [*((str(operation), value) for operation, value in items), ("END", None)]:
        inner: frozenset[str] = frozenset()
        if name == "LITERAL":
            run += chr(value)
            continue
        if name == "SUBPATTERN":
            if all(str(operation) == "LITERAL" for operation, _ in value[-1]):
                run += "".join(chr(letter) for _, letter in value[-1])
                continue
            inner = _literals(value[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[0]:
            inner = _literals(value[2])
        elif name == "ASSERT":
            inner = _literals(value[1])
        elif name == "BRANCH":
            branches = [_literals(branch) for branch in value[1]]
            inner = frozenset().union(*branches) if all(branches) else inner
        choices += [choice for choice in (frozenset({run.lower()} if len(run) >= _SHORT else ()), inner) if choice]
        run = ""
    return max(choices, key=lambda texts: (min(_LONG, *map(len, texts)), -len(texts)), default=frozenset())
