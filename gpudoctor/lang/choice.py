"""Which language is spoken: `--lang`, then GPUDOCTOR_LANG, then the locale."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

LANGUAGES: Mapping[str, str] = {"en": "English", "zh": "中文"}
"""Code and own name of every language that gpudoctor speaks. The source is English."""

ENGLISH = "en"
_VARIABLES = ("GPUDOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
"""In the order in which they decide; the locale's in POSIX's order."""

_now = ENGLISH


def current_language() -> str:
    """The code of the language that is spoken now."""
    return _now


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Speak a language of `LANGUAGES` inside the block, in every thread."""
    global _now
    before, _now = _now, language
    try:
        yield
    finally:
        _now = before


def language_for(flag: str | None, environment: Mapping[str, str] | None = None) -> str:
    """The code of the language for a value of `--lang` (None if it was not given) and an environment.

    A locale that gpudoctor does not speak is English.
    """
    found = os.environ if environment is None else environment
    asked = flag or next(filter(None, (found.get(name) for name in _VARIABLES)), "")
    code = asked.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return code if code in LANGUAGES else ENGLISH
