"""Formulas of an estimate and where they come from, in the reader's language.

A formula is numbers with a few nouns, and --fit makes many thousands of them: it is a plain text, whose known
phrases are translated when it is shown. tests/report/test_formula_words.py makes every kind of job, so that a
phrase that is missing here is noticed.
"""

import json
import re
from functools import lru_cache
from importlib.resources import files

from gpudoctor.lang import ENGLISH, current_language, rendered, term
from gpudoctor.lang.message import row

_ROWS = json.loads(files("gpudoctor.report").joinpath("formula_phrases.json").read_text("utf-8"))
FORMULA_PHRASES, SOURCE_PHRASES = (tuple(row["text"] for row in _ROWS[kind]) for kind in ("formula", "source"))
"""What stands between the numbers of a formula; explanations beside the names of libraries, files and papers."""

_HAN = "[\u3400-\u9fff\uff09]"
_WIDE = {":": "\uff1a", ";": "\uff1b", ",": "\uff0c"}


@lru_cache(maxsize=2)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z_])({'|'.join(map(re.escape, longest_first))})(?![A-Za-z_])")


def formula_text(formula: str) -> str:
    """A formula in the reader's language: `2 B x 4,096 hidden x 32 blocks`."""
    return _spoken(formula, FORMULA_PHRASES)


def source_text(source: str) -> str:
    """Where a formula comes from, in the reader's language; names of files and papers stay as they are."""
    return _spoken(source, SOURCE_PHRASES)


def _spoken(text: str, phrases: tuple[str, ...]) -> str:
    if current_language() == ENGLISH:
        return str(text)
    whole = rendered(text)
    if whole != text:
        return whole
    pieces = _pattern(phrases).split(text)  # every second one is a phrase
    said = rendered(row("", [term(piece) if at % 2 else piece for at, piece in enumerate(pieces)]))
    said = re.sub(rf"(?<={_HAN})[:;,] ?", lambda found: _WIDE[found[0][0]], said)
    return re.sub(rf"([:;,])(?={_HAN})", r"\1 ", said)
