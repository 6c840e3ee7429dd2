"""`gpudoctor list [WORD ...]`: every check, those of a topic or of a search."""

import argparse

from gpudoctor.cli.output import add_color_flag, add_format_flags
from gpudoctor.errors import UsageError
from gpudoctor.lang import template

EPILOG = template("""\
examples:
  gpudoctor list                    every check, by topic
  gpudoctor list data               the checks of a topic
  gpudoctor list slow checkpoint    a search, the most likely first""")


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.usage = "gpudoctor list [options] [WORD ...]"
    parser.epilog = EPILOG
    parser.add_argument("words", nargs="*", metavar="WORD", help="a topic (data, mem), or words to search for")
    add_format_flags(parser, output=template("write the list to FILE"))
    add_color_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print checks, grouped by topic or ranked; a plugin that failed is named on standard error."""
    from gpudoctor.cli.output import deliver_text, look, note_problems
    from gpudoctor.engine.manual import read_page, topic_order
    from gpudoctor.engine.registry import load_registry

    registry = load_registry()
    query = " ".join(arguments.words)
    checks = list(registry.checks.values())
    ranked = False
    if query:
        from gpudoctor.engine.manual_search import search, topic_of_word

        checks = topic_of_word(registry, query)
        if not checks:
            checks, ranked = [hit.check for hit in search(registry, query)], True
        if not checks:
            raise UsageError("no check is about {query!r} (all of them: gpudoctor list)", query=query)
    if not ranked:
        checks.sort(key=lambda check: topic_order(check.code))
    pages = [read_page(check) for check in checks]
    if arguments.format == "json":
        from gpudoctor.report.pages import list_json

        text = list_json(pages)
    else:
        from gpudoctor.ui.console.manual_page import render_hits, render_listing

        width, _ = look(arguments)
        text = render_hits(pages, query, width=width) if ranked else render_listing(pages, width=width)
    deliver_text(text, arguments)
    note_problems(registry)
    return 0
