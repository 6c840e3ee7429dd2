"""Writes the generated pages: one for each of our checks, an index, commands' help, verdicts, examples of pages.

The pages of checks and commands are built for the site and not kept in git.

python docs/generate.py            write them
python docs/generate.py --check    say which are stale, exit code 1 when one is
"""

import argparse
import json
import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from unittest.mock import patch

from manual_markdown import index_markdown, page_markdown

from gpudoctor.cli.parser import build_parser
from gpudoctor.engine.claims import AREAS
from gpudoctor.engine.manual import read_page, topic_order
from gpudoctor.engine.registry import Registry, load_registry
from gpudoctor.mend.plan import patch_of
from gpudoctor.model import Check, ReaderCrashed, Unavailable
from gpudoctor.testing import examine, make_host

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "checks" / "gpudoctor_checks" / "examples.json"
sys.path.insert(0, str(DOCS.parent / "tests" / "helpers"))
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
    written[EXAMPLES] = json.dumps(_examples(registry, ours), indent=1) + "\n"
    return written


def _examples(registry: Registry, checks: list[type[Check]]) -> dict[str, list[str]]:
    """For each check with sick scripts on file: the guilty lines of one, and these after the remedy's edit.

    The tests of the checks apply every edit and examine the script again, so what is shown as a cure is one.
    """
    return {str(check.code): found for check in checks if (found := _example(registry, check))}


def _example(registry: Registry, check: type[Check]) -> list[str]:
    from scripts import script_patient, sick_scripts

    shown = []
    for path in sick_scripts(check.code):
        patient = script_patient(path, host=make_host(cpus_affinity=9))
        with suppress(Unavailable, ReaderCrashed):
            for finding in examine(check, patient)[:1]:
                rules = registry.rules.get(check.code, ())
                remedies = [remedy for rule in rules for remedy in rule().prescribe(finding, patient)]
                patch = next(filter(None, map(patch_of, remedies)), "")
                if patch:
                    shown.append(_two_sides(patch))
                elif finding.span:
                    lines = path.read_text("utf-8").splitlines()
                    shown.append([dedent("\n".join(lines[finding.span.line - 1 :][:2])).rstrip("\n")])
    plain = [sides for sides in shown if all(side.isascii() and side.strip() for side in sides)]
    return min(plain, key=lambda sides: (-len(sides), sum(map(len, sides))), default=[])


_OTHER_CASE = re.compile(r". *# (sick|healthy)_")
"""A comment that makes another script of this one (`tests/helpers/scripts.py`)."""


def _two_sides(patch: str) -> list[str]:
    """The old and the new lines of a patch, each with one line around them."""
    sides: list[list[str]] = [[], []]
    lines = [line for line in patch.splitlines()[2:] if not _OTHER_CASE.match(line)]
    changed = [place for place, line in enumerate(lines) if line[:1] in "+-"]
    for place, line in enumerate(lines):
        if line.startswith("@@"):
            for side in sides:
                side += ["..."] if side else []
        elif min(abs(place - other) for other in changed) <= 1:
            for side, mark in zip(sides, "-+", strict=True):
                side += [line[1:]] if line[0] in (" ", mark) else []
    return [dedent("\n".join(side)).strip("\n") for side in sides]


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
    built = (DOCS / "checks", DOCS / "cli.md")
    kept = {path: text for path, text in wanted.items() if path.parent not in built and path not in built}
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
