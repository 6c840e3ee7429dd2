"""Text on a stream whose encoding may lack its characters: a C locale, a log collector, an old console."""

from typing import TextIO

from gpudoctor.lang import rendered as in_language
from gpudoctor.report.printable import printable

_ASCII = str.maketrans({
    "·": "-", "µ": "u", "°": "", "…": "...", "\u2013": "-", "—": "-", "→": "->", "\u00d7": "x", "≥": ">=", "≤": "<=",
    "±": "+-", "“": '"', "”": '"', "\u2018": "'", "\u2019": "'", "█": "#", "░": ".", "\u00a0": " ",
})  # fmt: skip
"""Our own marks in ASCII."""


def fit_encoding(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has: our own marks become ASCII, the rest escapes.

    An encoding that Python does not know is taken for ASCII.
    """
    try:
        codec = encoding or "ascii"
        text.encode(codec)
        return text
    except LookupError:
        codec = "ascii"
    except UnicodeEncodeError:
        pass
    return text.translate(_ASCII).encode(codec, "backslashreplace").decode(codec)


def write_text(text: str, stream: TextIO, *, rendered: bool = False) -> None:
    """Write the text to a stream in the language of now, and flush it. `BrokenPipeError` passes through.

    Control characters are written as escapes. A renderer has done so itself with what it shows (`rendered`):
    its colours are control characters, too.
    """
    stream.write(fit_encoding(text if rendered else printable(in_language(text)), stream.encoding))
    stream.flush()
