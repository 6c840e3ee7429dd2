"""Secrets out of what is written down or shown: the one definition, for the probe and for everything else.

Standard library only and Python 3.9, for it also runs inside the user's process. Every function takes time in
proportion to its text. Where a text is cut, `mask_cut` cuts it first and leaves no readable head of a secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from .commands import mask_calls, mask_commands, secret_words
from .forms import MASK, is_hex_key, mask_addresses, mask_forms, mask_schemes, mask_tokens
from .names import STEMS, is_secret_name, small
from .pairs import is_secret_entry, mask_pairs, mask_sections
from .values import is_nothing

__all__ = [
    "LONGEST_WORD",
    "MASK",
    "is_secret_entry",
    "is_secret_name",
    "mask_arguments",
    "mask_cut",
    "mask_text",
    "mask_tokens",
    "mask_value",
]

LONGEST_WORD = 4000
"""Characters of one word of a command line that are written down."""

_MARGIN = 2000
"""Characters behind a cut that are read, so that a secret across it is seen whole."""
_EDGE = 300
"""Characters before the end of what was read that are not shown: a secret may begin in them."""


def mask_text(text: str) -> str:
    """The text with every secret replaced by `***`: `API_KEY=...`, `--api-key ...`, URLs, known token forms."""
    if len(text) < 5:
        return text
    named = STEMS.search(small(text)) is not None
    if named and "\n" in text:
        text = mask_sections(text)
    if " -" in text or "login" in text or " set" in text:
        text = mask_commands(text)
    if "(" in text and ("login(" in text or "Auth(" in text or "set_" in text):
        text = mask_calls(text)
    text = mask_addresses(text)
    if named:
        text = mask_pairs(text)
    return mask_forms(mask_schemes(text))


def mask_cut(text: str, longest: int) -> str:
    """The first `longest` characters of a text, masked. The rest of a long text is never read."""
    if len(text) <= longest:
        return mask_text(text)[:longest]
    read = text[: longest + _MARGIN]
    masked = mask_text(read)
    if len(read) < len(text):
        masked = masked[: max(0, len(masked) - _EDGE)]
    return masked[:longest]


def mask_value(name: str, value: str) -> str:
    """The value of a variable or a setting, masked by its name or by its form."""
    named = is_secret_name(name) and not is_nothing(value)
    return MASK if value and (named or is_hex_key(name, value)) else mask_text(value)


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line's words with secrets masked, the word that follows `--api-key` included."""
    words = [word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD + _MARGIN] for word in arguments]
    secret = secret_words(words)
    return tuple(secret[at] if at in secret else _word(word) for at, word in enumerate(words))


def _word(word: str) -> str:
    """One word of a command line; `--name=value` is a secret's to its end, whatever is in it."""
    name, equals, value = word.partition("=")
    if equals and value and not set(name) & set(" \t\n\"'?&/:;{") and is_secret_name(name):
        return word if is_nothing(value) else name + equals + MASK
    return mask_cut(word, LONGEST_WORD)
