"""`gpudoctor explain CODE`: the manual page of a check."""

import argparse
import difflib
from typing import TYPE_CHECKING

from gpudoctor.cli.output import add_format_flags
from gpudoctor.errors import UsageError

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry
    from gpudoctor.model import Check


def configure(parser: argparse.ArgumentParser) -> None:
    """The check and the flags of the command."""
    parser.add_argument("check", metavar="CODE", help="a code or a name: DATA001, loader-bound")
    add_format_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the page; raises `UsageError` for a check that nobody has."""
    from gpudoctor.cli.output import note_problems, show, text_width
    from gpudoctor.engine.manual import read_page
    from gpudoctor.engine.registry import load_registry

    registry = load_registry()
    check = find_check(registry, arguments.check)
    page = read_page(check, answered=check.code in registry.rules)
    if arguments.format == "json":
        from gpudoctor.report.pages import page_json

        show(page_json(page))
    else:
        from gpudoctor.ui.console.manual_page import render_manual_page

        show(render_manual_page(page, width=text_width()))
    note_problems(registry)
    return 0


def find_check(registry: "Registry", word: str) -> "type[Check]":
    """The check of a code or a name, whatever the case; raises `UsageError` that names the nearest."""
    wanted = word.strip().lower().replace("_", "-")
    known: dict[str, type[Check]] = {}
    for code, check in registry.checks.items():
        known[str(code).lower()] = check
        known[check.name.lower()] = check
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
    hint = ""
    if near:
        check = known[near[0]]
        hint = f"; did you mean {check.code} ({check.name})?"
    raise UsageError(f"no check has the code or name {word!r}{hint} (all of them: gpudoctor list)")
