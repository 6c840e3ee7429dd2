"""`gpudoctor list`: every check."""

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="how to print it (default: text)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print every registered check, grouped by topic; a plugin that failed is named on standard error."""
    from gpudoctor.cli.pager import note_problems, show, text_width
    from gpudoctor.engine.manual import read_page, topic_order
    from gpudoctor.engine.registry import load_registry

    registry = load_registry()
    pages = [read_page(registry.checks[code], answered=code in registry.rules)
             for code in sorted(registry.checks, key=topic_order)]  # fmt: skip
    if arguments.format == "json":
        from gpudoctor.report.pages import list_json

        show(list_json(pages))
    else:
        from gpudoctor.ui.console.listing import render_listing

        show(render_listing(pages, width=text_width()))
    note_problems(registry)
    return 0
