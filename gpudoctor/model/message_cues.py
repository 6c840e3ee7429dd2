"""Literals of which every text that a message matches holds one: they are found much faster than the pattern is."""

import re
from collections.abc import Iterator

from gpudoctor.model.log_message import LogMessage

_LONG = 5
"""Letters of a word that is rare enough."""
_COMMON = re.compile(
    r"error|fail(?:ed|ure)|warn(?:ing)?|info|python|torch|runtime|value|exception|file|loss|nccl|[\d.+-]+"
)
"""What so many lines hold that it says nothing; numbers differ between the lines of a loop."""
_ESCAPE = re.compile(r"\\(?:([^\w\s])|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)")
_EITHER_CASE = re.compile(r"\[([A-Za-z])(?!\1)((?i:\1))\]")
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_HEAD = re.compile(r"\((?:\?(?:[a-z-]*:|P<\w+>)|(?!\?))")
_PART = re.compile(rf"({_HEAD.pattern})([^()|]*)(\))(?![*+?{{])")
_GROUP = re.compile(r"\([^()]*\)")
_REPEATED = re.compile(r".(?:[*?+]|\{\d{0,4},?\d{0,4}\})[?+]?")
_GAP = re.compile(r"[\0.^$]+")
_HIDDEN = {chr(0xE000 + letter): chr(letter) for letter in range(128)}
_SHOWN = str.maketrans({**_HIDDEN, "\1": ""})


def cues_of(message: LogMessage) -> tuple[str, ...]:
    """The message's own cues, and those that follow from its pattern, in small letters."""
    own = (message.cue,) if isinstance(message.cue, str) else message.cue
    found, without = cues_of_pattern(message.pattern)
    if without and not own:
        raise ValueError(f"{message.kind}: no rare word is in every text of {message.pattern!r}: give it a cue")
    return (*own, *found)


KNOWN: dict[str, tuple[tuple[str, ...], int]] = {}
"""What `cues_of_pattern` has given, here or when an index of checks was made."""


def cues_of_pattern(pattern: str) -> tuple[tuple[str, ...], int]:
    """A literal of each alternative, and how many alternatives have none."""
    if pattern in KNOWN:
        return KNOWN[pattern]
    text = _ESCAPE.sub(lambda found: f"\1{chr(0xE000 + ord(found[1]))}" if found[1] else _zeros(found), pattern)
    KNOWN[pattern] = _literals(_CLASS.sub(_zeros, _EITHER_CASE.sub("\1\1\1\\2", text)))
    return KNOWN[pattern]


def _literals(text: str) -> tuple[tuple[str, ...], int]:
    """The same of a pattern in which escapes and classes are hidden."""
    found: list[str] = []
    without = begin = 0
    for branch in _plain(text).split("|"):
        whole, begin = text[begin : begin + len(branch)], begin + len(branch) + 1
        parts = [part.translate(_SHOWN) for part in _GAP.split(branch) if len(part) >= _LONG]
        literal = max(parts, key=_rarity, default="").lower()
        if _rarity(literal) >= _LONG:
            found.append(literal)
            continue
        inside = [cues for cues, missing in map(_literals, _groups(whole)) if not missing]
        found += sorted(inside, key=len)[0] if inside else ()
        without += not inside
    return tuple(dict.fromkeys(found)), without


def _groups(text: str) -> Iterator[str]:
    """What stands in the groups without which a text does not match."""
    depth = begin = 0
    for at, letter in enumerate(text):
        if letter == "(":
            begin = begin if depth else at
            depth += 1
        elif letter == ")":
            depth -= 1
            if not depth and text[at + 1 : at + 2] not in ("*", "?", "{") and (head := _HEAD.match(text, begin)):
                yield text[head.end() : at]


def _rarity(text: str) -> int:
    """Letters of the longest word that is not common."""
    return max(map(len, _COMMON.sub(" ", text.lower()).split()), default=0)


def _plain(text: str) -> str:
    """The text with a zero for each letter of what need not be there literally; every other keeps its place."""
    while "(" in text:
        text = _GROUP.sub(_zeros, _PART.sub(lambda found: "\1" * len(found[1]) + f"{found[2]}\1", text))
    return _REPEATED.sub(_zeros, text)


def _zeros(found: re.Match[str]) -> str:
    return "\0" * len(found[0])
