"""Catalogues as gettext PO files, the form that translators' tools know: reading and writing.

They are read as they are; there is no compiled file that could fall behind. Every command reads some, so
what this module imports is kept small. Of the format, `msgid`, `msgstr`, comments and the `fuzzy` flag are
understood. Contexts and plural forms are not needed: a template's parts carry the numbers.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_HEADER = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"""
_LONGEST = 100
"""Characters of a string on one line; longer ones go on after a blank."""


class CatalogueEntry(NamedTuple):
    """One template and its translation."""

    source: str
    """`msgid`."""
    translation: str
    """`msgstr`; "" where there is none."""
    places: tuple[str, ...] = ()
    """The files that the template is in."""
    fuzzy: bool = False
    """A translator is not sure: it is not used."""


def read_po(text: str) -> Iterator[CatalogueEntry]:
    """The entries of a PO file, without its header."""
    comments: list[str] = []
    texts: dict[str, str] = {}
    keyword = ""
    for line in [*text.splitlines(), ""]:
        first, _, rest = line.partition(" ")
        if first in ("msgid", "msgstr"):
            keyword, texts[first] = first, rest[1:-1]
        elif line.startswith('"') and keyword:
            texts[keyword] += line[1:-1]
        elif line.startswith("#"):
            comments.append(line)
        else:  # an entry ends with an empty line
            if texts.get("msgid") and "msgstr" in texts:
                yield _entry(comments, **texts)
            comments, texts, keyword = [], {}, ""


def _entry(comments: list[str], msgid: str, msgstr: str) -> CatalogueEntry:
    places = tuple(word for line in comments if line.startswith("#: ") for word in line[3:].split())
    return CatalogueEntry(_unescaped(msgid), _unescaped(msgstr), places, "#, fuzzy" in comments)


def translations(text: str) -> dict[str, str]:
    """Template to translation, of a PO file; what is untranslated or fuzzy is left out."""
    return {entry.source: entry.translation for entry in read_po(text) if entry.translation and not entry.fuzzy}


def written_po(entries: Iterable[CatalogueEntry], language: str) -> str:
    """A PO file, in the order of the entries."""
    blocks = [_HEADER.format(language=language)]
    for entry in entries:
        lines = [f"#: {place}" for place in entry.places]
        lines += ["#, fuzzy"] if entry.fuzzy else []
        lines += [_quoted("msgid", entry.source), _quoted("msgstr", entry.translation)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text) if "\\" in text else text


def _quoted(keyword: str, text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if len(escaped) <= _LONGEST:
        return f'{keyword} "{escaped}"'
    pieces = [""]
    for word in escaped.split(" "):
        if pieces[-1] and len(pieces[-1]) + len(word) >= _LONGEST:
            pieces.append("")
        pieces[-1] += f"{word} "
    pieces[-1] = pieces[-1][:-1]
    return "\n".join((f'{keyword} ""', *(f'"{piece}"' for piece in pieces)))
