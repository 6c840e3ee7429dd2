"""What `run` and `verify` share: the command behind `--`, which checks look, and the look at the recording."""

import argparse
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import tell
from gpudoctor.errors import UsageError
from gpudoctor.lang import rendered, say
from gpudoctor.vitals.targets import near_name

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.model import LogMessage, Patient, Report
    from gpudoctor.vitals.output_files import OutputFiles

REPORT_SECONDS = 60.0
"""Seconds that a report may take after the command has ended: its allocation is held meanwhile."""
_ELSEWHERE = re.compile(
    r"(?:^|/| )(?:docker|podman|nerdctl|singularity|apptainer|enroot|hatch|-C|--(?:ch)?dir\w*|--cwd)\b"
)
"""Words of a command that may run in another folder, or on another machine."""
FAILED = 1
"""Exit code under --fail-on where the command failed by itself."""


def add_command(parser: argparse.ArgumentParser) -> None:
    """The command's words."""
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="what starts the training")


def command_of(arguments: argparse.Namespace, name: str) -> tuple[str, ...]:
    """The command's words, with or without a `--` before them, for our command `name`. Raises `UsageError`."""
    rest = arguments.script_arguments
    words = (*arguments.words, "--", *rest) if arguments.words and rest else (*arguments.words, *rest)
    if not words:
        raise UsageError("no command was given; put it after --: gpudoctor {name} -- python train.py", name=name)
    if words[0].startswith("-"):
        raise UsageError("{words} is not a flag of {name}; see: gpudoctor {name} --help", words=words[0], name=name)
    # A launcher would start its processes before they find that their script is missing.
    missing = [word for word in words if word.endswith((".py", ".sh")) and not os.path.exists(word)]
    if missing and not _ELSEWHERE.search(" ".join(words)):
        from gpudoctor.vitals.job.launch import find_launch

        found = find_launch(words)
        script = "" if not found or found.starter else found.script or found.shell_script
        if script and script in missing:
            near = near_name(Path(script))
            raise UsageError("{path}: no such file or folder{near_name}", path=script, near_name=near)
    return tuple(words)


def recorded_patient(
    command: tuple[str, ...],
    folder: Path,
    sources: Mapping[str, str] | None = None,
    output: "OutputFiles | None" = None,
    log_messages: "Iterable[tuple[str, LogMessage]]" = (),
) -> "Patient":
    """The patient of a command that was run and recorded in the folder; `sources` ran in place of files.

    `output` says where it printed to, if that is to be read, and `log_messages` what to find in it.
    """
    from gpudoctor.vitals.build_patient import PatientRequest, admit
    from gpudoctor.vitals.output_files import OutputFiles
    from gpudoctor.vitals.targets import Targets

    return admit(
        PatientRequest(
            targets=Targets(items=()),
            command=command,
            recording=(str(folder),),
            output=output or OutputFiles(),
            log_messages=log_messages,
            sources=dict(sources or {}),
        )
    )


def examine_recorded(
    command: tuple[str, ...], folder: Path, request: "Request", *, quiet: bool, output: "OutputFiles | None" = None
) -> "Report":
    """The report of a command that was run and recorded in the folder."""
    from gpudoctor.engine.examination import examine
    from gpudoctor.ui.status_line import waiting

    patient = recorded_patient(command, folder, output=output, log_messages=request.registry.log_messages())
    with waiting(patient, quiet=quiet):
        return examine(patient, request)


def keep_shown(folder: Path, verdict: str, steps: int) -> None:
    """Keep the verdict of a recording of the state folder, for `gpudoctor recordings`."""
    from gpudoctor.recorder.kept_recordings import is_kept, keep_verdict

    if is_kept(folder):
        keep_verdict(folder, verdict, steps)


def write_line(text: str, /, **parts: object) -> None:
    """A line on standard error, where there still is one: a text, or a template with its parts."""
    if text:
        with suppress(OSError, ValueError):
            tell(rendered(say(text, **parts) if parts else text) + "\n")
