"""The flags and the last step that every diagnosing command shares: render, write, exit code."""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpudoctor.cli.output import add_color_flag, add_format_flags, deliver_text, look, tell
from gpudoctor.errors import UsageError
from gpudoctor.lang import template, tr
from gpudoctor.model.records import frozen, replace

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.model import Report

TEXT = "text"
FORMAT_NAMES = (TEXT, "json", "sarif", "junit", "github", "markdown", "html", "nagios")
FAIL_ON = ("error", "warning", "note", "never")


def add_report_flags(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """Flags of every command that diagnoses; without `json` the command has a `--json` of its own."""
    report = parser.add_argument_group("report")
    add_format_flags(
        report,
        FORMAT_NAMES,
        template("write the report to FILE, a short summary to stderr (-: standard output)"),
        json=json,
    )
    report.add_argument("--fail-on", choices=FAIL_ON, help="lowest severity that gives exit code 1 (default: error)")
    report.add_argument("--strict", action="store_true", help="exit code 3 if a check cannot read what it needs")
    report.add_argument(
        "--share", action="store_true", help="remove paths, host and user names, so that it is safe to share"
    )
    report.add_argument("-q", "--quiet", action="store_true", help="print no progress line and no hints")
    report.add_argument(
        "-v", "--verbose", action="store_true", help="print every outcome, all evidence, and the reason for the order"
    )
    add_color_flag(report)
    choose = parser.add_argument_group("which checks")
    choose.add_argument(
        "--select", action="append", default=[], metavar="CODES", help="run only these codes, topics or names"
    )
    choose.add_argument(
        "--ignore", action="append", default=[], metavar="CODES", help="silence these; they are still counted"
    )
    choose.add_argument(
        "--config", metavar="FILE", help="settings file instead of the nearest gpudoctor.toml or pyproject.toml"
    )


def request_of(arguments: argparse.Namespace, start: Path = Path(), *, signs_first: bool = False) -> "Request":
    """Which checks look, by the settings file named, or the nearest from the first target upwards, and by flags.

    `--select` replaces the file's, `--ignore` adds to it; `signs_first` takes the machine's signs at once.
    """
    from gpudoctor.engine.examination import Request
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.engine.selection import make_selection
    from gpudoctor.engine.settings import Settings, find_settings_file, read_settings, split_selectors

    if arguments.config is not None and not os.path.isfile(arguments.config):
        raise UsageError("--config {config}: no such file", config=arguments.config)
    registry = load_registry()
    found = find_settings_file(start) if arguments.config is None else Path(arguments.config)
    settings = read_settings(found, registry) if found else Settings()
    by_flag = [(word, "--select") for word in split_selectors(arguments.select)]
    by_file = [(word, settings.where) for word in settings.select]
    ignore = [(word, settings.where, reason) for word, reason in settings.ignore]
    ignore += [(word, "--ignore", None) for word in split_selectors(arguments.ignore)]
    return Request(
        registry=registry,
        selection=make_selection(registry, by_flag or by_file, ignore),
        settings=settings,
        signs_first=("gpu_survey", "kernel_log", "packages", "torch", "host") if signs_first else (),
    )


def check_output(arguments: argparse.Namespace) -> None:
    """Refuse an --output that cannot be written before anything is examined."""
    if arguments.output == "-":
        arguments.output = None
    if arguments.output is None:
        return
    path = Path(arguments.output)
    folder = path.parent
    if not os.path.isdir(folder):
        raise UsageError("--output {path}: the folder {folder} does not exist", path=path, folder=folder)
    if os.path.isdir(path):
        raise UsageError("--output {path}: is a folder; name a file in it", path=path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError("--output {path}: not writable by this user; choose another place", path=path)


@frozen
class Rendered:
    """A report as it goes out."""

    text: str
    summary: str
    """For standard error, where the text goes to a file."""
    code: int


def deliver(report: "Report", arguments: argparse.Namespace, fail_on: str, *, preflight: bool = False) -> int:
    """Render the report, write it where it was asked for, and return the exit code.

    `preflight` makes the text a paragraph for a job's log, unless somebody watches or asks for more.
    """
    out = rendered(report, arguments, fail_on, preflight=preflight, stream=sys.stdout)
    return send(out, arguments, sys.stdout)


def rendered(
    report: "Report", arguments: argparse.Namespace, fail_on: str, *, preflight: bool = False, stream: TextIO
) -> Rendered:
    """The report in the format that was asked for; nothing is written."""
    from gpudoctor.engine.exit_codes import exit_code, named_strictly
    from gpudoctor.model import Crashed, Found

    if arguments.strict:
        report = named_strictly(report)
    if report.run is not None and (arguments.share or not getattr(arguments, "show_data", False)):
        report = replace(report, run=replace(report.run, shown={}))
    if arguments.format in (TEXT, "json", "html"):
        from gpudoctor.mend.plan import with_patches

        report = with_patches(report)
    if arguments.format in (TEXT, "html") and not arguments.share:
        from gpudoctor.report.excerpts import with_excerpts

        report = with_excerpts(report)
    if arguments.format == "json" and not arguments.verbose:
        # The summary counts what passed or was skipped: 160 outcomes are most of a report.
        report = replace(report, outcomes=tuple(each for each in report.outcomes if isinstance(each, Crashed | Found)))
    if arguments.share:
        from gpudoctor.report.sharing import shareable

        report = shareable(report)
    code = exit_code(report, fail_on, arguments.strict)
    if arguments.format == "nagios":
        from gpudoctor.report.nagios import exit_code as nagios_code

        code = nagios_code(report)
    summary = (
        tr("gpudoctor: {verdict} Report: {output}", verdict=report.summary.verdict, output=arguments.output) + "\n"
    )
    return Rendered(text=_render(report, arguments, fail_on, preflight, stream), summary=summary, code=code)


def send(out: Rendered, arguments: argparse.Namespace, stream: TextIO) -> int:
    """Write a rendered report where it was asked for, and return the exit code."""
    deliver_text(out.text, arguments, stream)
    if arguments.output is not None:
        with suppress(OSError, ValueError):
            tell(out.summary)
    return out.code


def _render(report: "Report", arguments: argparse.Namespace, fail_on: str, preflight: bool, stream: TextIO) -> str:
    if arguments.format != TEXT:
        from gpudoctor.report import render

        return render(report, arguments.format, fail_on)
    from gpudoctor.ui.console.text_report import render_preflight, render_text

    width, colour = look(arguments, stream)
    if preflight and not (arguments.output is None and stream.isatty()) and not arguments.verbose:
        return render_preflight(report, width=width, floor=fail_on)
    return render_text(report, width=width, colour=colour, verbose=arguments.verbose)
