"""`gpudoctor explain WORDS`: the manual page of a check, by its code, its name, a symptom or a message."""

import argparse
import difflib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpudoctor.cli.output import add_color_flag, add_format_flags
from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template, tr

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry
    from gpudoctor.model import Check

EPILOG = template("""\
examples:
  gpudoctor explain DATA001                               by its code, or its name: loader-bound
  gpudoctor explain oom                                   by a word or a symptom
  gpudoctor explain gpu idle between steps
  gpudoctor explain "CUBLAS_STATUS_NOT_INITIALIZED"       by a message""")
_CLEAR = 2.0
"""How much better than the second the first hit of a message must be to be shown without a question."""
_TYPO = 0.75
"""Likeness of a hyphenated name or a code from which a word is a typo of it, not a search."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The check and the flags of the command."""
    parser.usage = "gpudoctor explain [options] CODE | WORD ..."
    parser.epilog = EPILOG
    parser.add_argument("words", nargs="+", metavar="WORD", help="a code, a name, a symptom or an error message")
    add_format_flags(parser, output=template("write the page to FILE"))
    add_color_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the page, or the checks that the words may mean; raises `UsageError` where there is none."""
    from gpudoctor.cli.output import deliver_text, look, note_problems
    from gpudoctor.engine.manual import read_page
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.engine.selection import retired_check

    registry = load_registry()
    query = " ".join(arguments.words)
    if (gone := retired_check(query)) is not None:
        told = {"code": gone.code, "name": gone.name, "retired": gone.answer}
        text = tr("{code} {name}: this check is gone. {answer}", **{**told, "answer": say(gone.answer)})
        deliver_text(json.dumps(told) if arguments.format == "json" else text, arguments)
        return 0
    found = found_checks(registry, query)
    pages = [read_page(check) for check in found]
    if arguments.format == "json":
        from gpudoctor.report.pages import list_json, page_json

        text = page_json(pages[0]) if len(pages) == 1 else list_json(pages)
    else:
        from gpudoctor.ui.console.manual_page import render_hits, render_manual_page

        width, colour = look(arguments)
        if len(pages) == 1:
            text = render_manual_page(pages[0], width=width, colour=colour)
        else:
            text = render_hits(pages, query, width=width)
    deliver_text(text, arguments)
    note_problems(registry)
    return 0


def found_checks(registry: "Registry", query: str) -> "list[type[Check]]":
    """The check of a code or a name, or those that the words may mean, the most likely first.

    Raises `UsageError`.
    """
    known = {str(code).lower(): check for code, check in registry.checks.items()}
    known |= {check.name.lower(): check for check in registry.checks.values()}
    word = query.strip()
    if exact := known.get(word.lower().replace("_", "-")):
        return [exact]
    if " " not in word and ("-" in word or word[-1:].isdigit()) and (near := _near(known, word, _TYPO)):
        raise _unknown(word, near)
    from gpudoctor.engine.manual_search import search

    hits = search(registry, query)
    if not hits:
        raise _unknown(word, _near(known, word, 0.5))
    # The first one alone is meant where there is no other, or where it is the only one whose message it is.
    clear = len(hits) == 1 or (hits[0].message and hits[0].score > _CLEAR * hits[1].score)
    return [hits[0].check] if clear else [hit.check for hit in hits]


def _near(known: "Mapping[str, type[Check]]", word: str, cutoff: float) -> "type[Check] | None":
    if code := re.fullmatch(r"([a-z]+)[-_ ]?0*(\d+)", word.strip().lower()):
        same = f"{code[1]}{int(code[2]):03}"  # data1, DATA-01
        if same in known:
            return known[same]
    near = difflib.get_close_matches(word.strip().lower().replace("_", "-"), known, n=1, cutoff=cutoff)
    return known[near[0]] if near else None


def _unknown(word: str, near: "type[Check] | None") -> UsageError:
    hint = say("; did you mean {code} ({name})?", code=near.code, name=near.name) if near is not None else ""
    return UsageError(
        "no check has the code or name {word!r}{hint} (all of them: gpudoctor list)", word=word, hint=hint
    )
