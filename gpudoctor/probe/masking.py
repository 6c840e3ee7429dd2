"""Secrets out of what is written down: command lines, messages, source lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"

_NAME = re.compile(
    r"(?i)(^|[_-])(token|secret|password|passwd|pwd|api[_-]?key|access[_-]?key|private[_-]?key|auth|"
    r"credential)s?($|[_-])"
)
_VALUES = re.compile(
    r"(sk-[A-Za-z0-9_-]{12,}|hf_[A-Za-z0-9]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|glpat-[A-Za-z0-9_-]{12,}"
    r"|AKIA[A-Z0-9]{12,}|xox[abps]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9._-]{10,}"
    r"|\b[0-9a-f]{40}\b)"
)
_ASSIGNED = re.compile(
    r"(?i)((?:token|secret|password|passwd|api[_-]?key|access[_-]?key|authorization)\w*[\"']?\s*[=:]\s*"
    r"[\"']?)([^\s\"',;)]{4,})"
)
_URL = re.compile(r"(\w+://)[^/\s@:]+:[^/\s@]+@")


def mask_text(text: str) -> str:
    """A text with what looks like a secret masked."""
    text = _URL.sub(r"\1" + MASK + "@", text)
    text = _ASSIGNED.sub(r"\1" + MASK, text)
    return _VALUES.sub(MASK, text)


def mask_arguments(words: Sequence[str]) -> list[str]:
    """A command line; the value of `--api-key` is masked in both spellings."""
    masked: list[str] = []
    hide = False
    for word in words:
        name, equals, value = word.partition("=")
        secret = bool(_NAME.search(name.lstrip("-")))
        if hide and not word.startswith("-"):
            masked.append(MASK)
        elif secret and equals and value:
            masked.append(name + "=" + MASK)
        else:
            masked.append(mask_text(word))
        hide = secret and not equals and word.startswith("-")
    return masked
