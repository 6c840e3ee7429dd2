"""Writes the generated pages: one for each of our checks, an index, commands' help, verdicts.

The pages of checks and commands are built for the site and not kept in git.

python docs/generate.py            write them
python docs/generate.py --check    say which are stale, exit code 1 when one is
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

from manual_markdown import index_markdown, page_markdown

from gpudoctor.cli.parser import build_parser
from gpudoctor.engine.claims import AREAS
from gpudoctor.engine.manual import read_page, topic_order
from gpudoctor.engine.registry import load_registry

DOCS = Path(__file__).parent
_OURS = "gpudoctor_checks."


def pages() -> dict[Path, str]:
    """Every generated file and its text. Plugins that happen to be installed are left out."""
    registry = load_registry()
    ours = [check for check in registry.checks.values() if check.__module__.startswith(_OURS)]
    ours.sort(key=lambda check: topic_order(check.code))
    read = [read_page(check) for check in ours]
    written = {DOCS / "checks" / f"{page.code}.md": page_markdown(page) for page in read}
    written[DOCS / "checks" / "README.md"] = index_markdown(read)
    written[DOCS / "cli.md"] = _command_line()
    written[DOCS / "verdicts.md"] = _verdicts()
    return written


def _verdicts() -> str:
    """What each sentence that calls something well requires, and the areas of each examination."""
    kept = (DOCS / "verdicts.md").read_text("utf-8").splitlines()
    rows = [line for line in kept if line.startswith("| `")]  # written by hand
    judged = [f"| {kind.value} | {', '.join(name for name, _ in areas)} |" for kind, areas in AREAS.items()]
    return "\n".join(
        [
            "# What a verdict requires",
            "",
            "A verdict calls something well, better or cured only where it was examined and found so. If",
            "something is missing, the verdict names it (`gpudoctor/engine/claims.py`).",
            "",
            "| command | sentence | requires |",
            "|---|---|---|",
            *rows,
            "",
            "No verdict says that a training is right. A verdict that finds nothing names its areas in",
            "which no check passed or found something. Only a run shows gradients, labels, schedule and resume.",
            "JSON has both lists: `summary.judged` and `summary.not_judged`.",
            "",
            "| examined | areas |",
            "|---|---|",
            *judged,
            "",
        ]
    )


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Kept files that differ from their text."""
    kept = {path: text for path, text in wanted.items() if path.parent == DOCS and path.name != "cli.md"}
    return sorted(path for path, text in kept.items() if not path.is_file() or path.read_text("utf-8") != text)


def _command_line() -> str:
    """The help of the program and of each command, at 80 columns whatever the terminal."""
    with patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1", "LC_ALL": "C"}):
        parser = build_parser()
        lines = ["# The command line", "", *help_lines(parser)]
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, command in action.choices.items():
                    lines += [f"## gpudoctor {name}", "", *help_lines(command)]
    return "\n".join(lines).rstrip() + "\n"


def help_lines(parser: argparse.ArgumentParser) -> list[str]:
    """The help in the wording of Python 3.13: older ones repeat the placeholder after each name of a flag."""
    text = re.sub(r"^(  -\w) (\S+), (--[\w-]+ \2)", r"\1, \3", parser.format_help(), flags=re.MULTILINE)
    return ["```text", text.rstrip(), "```", ""]


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a page is stale")
    if parser.parse_args().check:
        old = stale(pages())
        for path in old:
            sys.stdout.write(f"stale: {path.relative_to(DOCS.parent)} (run: make docs)\n")
        return 1 if old else 0
    write()
    return 0


def write() -> None:
    """Write every page."""
    shutil.rmtree(DOCS / "checks", ignore_errors=True)
    (DOCS / "checks").mkdir()
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
