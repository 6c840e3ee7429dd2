"""`gpudoctor list`: every check; with --overrides what a trial can change at run time."""

import argparse
from typing import TYPE_CHECKING

from gpudoctor.cli.output import add_format_flags

if TYPE_CHECKING:
    from gpudoctor.report.pages import Override


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add_format_flags(parser)
    parser.add_argument(
        "--overrides",
        action="store_true",
        help="what `gpudoctor verify` can change at run time, not checks",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print every registered check, grouped by topic; a plugin that failed is named on standard error."""
    if arguments.overrides:
        return _overrides(arguments.format)
    from gpudoctor.cli.output import note_problems, show, text_width
    from gpudoctor.engine.manual import read_page, topic_order
    from gpudoctor.engine.registry import load_registry

    registry = load_registry()
    pages = [read_page(registry.checks[code], answered=code in registry.rules)
             for code in sorted(registry.checks, key=topic_order)]  # fmt: skip
    if arguments.format == "json":
        from gpudoctor.report.pages import list_json

        show(list_json(pages))
    else:
        from gpudoctor.ui.console.manual_page import render_listing

        show(render_listing(pages, width=text_width()))
    note_problems(registry)
    return 0


def listed_overrides() -> "list[Override]":
    """Every override by name."""
    from gpudoctor.model import Applicability
    from gpudoctor.report.pages import Override
    from gpudoctor.trial.override_table import AT_PLACES, OVERRIDES

    return [
        Override(name=name, safe=applicability is Applicability.SAFE, what=what, vary=name not in AT_PLACES)
        for name, (applicability, what) in sorted(OVERRIDES.items(), key=lambda item: item[0].lower())
    ]


def _overrides(how: str) -> int:
    from gpudoctor.cli.output import show, text_width
    from gpudoctor.report.pages import overrides_json

    found = listed_overrides()
    if how == "json":
        show(overrides_json(found))
    else:
        from gpudoctor.ui.console.manual_page import render_overrides

        show(render_overrides(found, width=text_width()))
    return 0
