"""What a text must hold for a regular expression to match it: literals are found much faster than patterns."""

import re
from dataclasses import dataclass
from itertools import product

from gpudoctor.vitals.job_log.words import bare

_MOST_BRANCHES = 32
_MOST_LITERALS = 2
"""Literals of one branch that are looked for, the longest ones."""
_SHORTEST = 2
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\((?:\?(?:P<\w+>|[aiLmsux-]*:))?")
_LOOK = re.compile(r"\(\?<?[=!]")
"""A look ahead or behind: it takes nothing, and may forbid what it holds."""
_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")
_TIMES = re.compile(r"(?:([*+?])|\{(\d*)(?:,\d*)?\})[?+]?")
_PUNCTUATION = re.compile(r"\\[^\w\s]", re.ASCII)
_OF_A_KIND = re.compile(r"\\[dDwWsSbBnrt]")


class _Unknown(Exception):
    """A part of a pattern that is not understood here."""


@dataclass(frozen=True, slots=True)
class RequiredText:
    """Alternatives, of which a text that a pattern matches holds all literals of one."""

    branches: tuple[tuple[str, ...], ...]
    fold: bool
    """Whether the literals are small letters, for a text in small letters."""
    raw_branches: tuple[tuple[bytes, ...], ...]
    """The same as bytes."""
    words: tuple[tuple[bytes, ...], ...]
    """Of each branch the parts of words that `bare` leaves of it."""

    def may_match(self, text: str) -> bool:
        """Whether the pattern may match a text."""
        text = text.lower() if self.fold else text
        return any(all(literal in text for literal in branch) for branch in self.branches)

    def may_match_bytes(self, data: bytes, small: bytes) -> bool:
        """The same for the bytes of a text, or of many lines; `small` are these in small letters."""
        data = small if self.fold else data
        return any(all(literal in data for literal in branch) for branch in self.raw_branches)

    def may_match_words(self, words: bytes, small: bytes) -> bool:
        """The same for the words of many lines, joined: much shorter than the lines."""
        words = small if self.fold else words
        return any(all(part in words for part in branch) for branch in self.words)


NOTHING_REQUIRED = RequiredText(((),), False, ((),), ((),))


def required_text(pattern: str) -> RequiredText:
    """The literals without which a pattern matches nothing; none if it is not understood."""
    fold = re.search(r"\(\?[a-z]*i", pattern) is not None
    try:
        if re.search(r"\(\?[a-z]*x", pattern):
            raise _Unknown
        found, end = _alternatives(pattern, 0)
        if end != len(pattern):
            raise _Unknown
    except _Unknown:
        found = [()]
    branches = tuple(dict.fromkeys(_longest(branch, fold) for branch in found))
    if () in branches or len(branches) > _MOST_BRANCHES:
        branches = ((),)
    raw = tuple(tuple(item.encode() for item in branch) for branch in branches)
    words = tuple(tuple(part for item in branch for part in bare(item).split()) for branch in raw)
    return RequiredText(branches, fold, raw, words)


def _longest(branch: tuple[str, ...], fold: bool) -> tuple[str, ...]:
    literals = {item for item in branch if len(item) >= _SHORTEST and item.isascii()}
    ordered = sorted(literals, key=lambda item: (-len(item), item))[:_MOST_LITERALS]
    return tuple(item.lower() if fold else item for item in ordered)


def _alternatives(pattern: str, at: int) -> tuple[list[tuple[str, ...]], int]:
    """The literals of each alternative from a place on, up to a closing bracket or the end."""
    found: list[tuple[str, ...]] = []
    while True:
        branch, at = _sequence(pattern, at)
        found += branch
        if pattern[at : at + 1] != "|":
            return found, at
        at += 1


def _sequence(pattern: str, at: int) -> tuple[list[tuple[str, ...]], int]:
    """The literals of parts that follow one another; several if a part of them has alternatives."""
    runs = [""]
    choices: list[list[tuple[str, ...]]] = []
    while at < len(pattern) and pattern[at] not in "|)":
        letter, inner = "", None
        if flags := _FLAGS.match(pattern, at):
            at = flags.end()
            continue
        if look := _LOOK.match(pattern, at):
            at = _alternatives(pattern, look.end())[1] + 1
            runs.append("")
            continue
        if pattern[at] == "(":
            group = _GROUP.match(pattern, at)
            if group is None or pattern.startswith("?", group.end()):
                raise _Unknown
            inner, at = _alternatives(pattern, group.end())
            at += 1
        elif pattern[at] == "[":
            of_class = _CLASS.match(pattern, at)
            if of_class is None:
                raise _Unknown
            at = of_class.end()
        elif pattern[at] == "\\":
            if _PUNCTUATION.match(pattern, at):
                letter = pattern[at + 1]
            elif not _OF_A_KIND.match(pattern, at):
                raise _Unknown
            at += 2
        else:
            letter = "" if pattern[at] in ".^$" else pattern[at]
            at += 1
        times = _TIMES.match(pattern, at)
        if times is None:
            certain = True
        else:
            at = times.end()
            certain = times[1] == "+" or (times[1] is None and times[2] not in ("", "0"))
        if certain:
            runs[-1] += letter
        if not letter or times is not None:
            runs.append("")
        if inner is not None and certain:
            choices.append(inner)
    branches = [tuple(runs)]
    for choice in choices:
        if len(branches) * len(choice) <= _MOST_BRANCHES:
            branches = [(*one, *other) for one, other in product(branches, choice)]
    return branches, at
