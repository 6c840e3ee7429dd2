"""`gpudoctor recordings`: what `gpudoctor run` has recorded here, how large it is; removing it."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from gpudoctor.cli.flag_types import count
from gpudoctor.cli.output import add_color_flag, add_format_flags, answers_yes, look, show
from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.lang import rendered, template, tr
from gpudoctor.lang.message import concatenated
from gpudoctor.text import count as counted
from gpudoctor.text import size

if TYPE_CHECKING:
    from gpudoctor.recorder.kept_recordings import KeptRecording

EPILOG = template("""\
examples:
  gpudoctor recordings                                 all of them, the newest first
  gpudoctor report run-20261121-081502-4711            report on one, by its name
  gpudoctor recordings --keep 10                       show what would be removed, then ask
  gpudoctor recordings --remove 'run-202611*'          by name or pattern
Nothing is removed without --yes or your answer. A recording that is being written is never removed.
exit codes: 0; 2 wrong usage; 3 a recording could not be removed.""")
_KEPT = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `recordings`."""
    parser.usage = "gpudoctor recordings [options]"
    parser.epilog = EPILOG
    choose = parser.add_argument_group("remove (each flag that is given narrows the choice)")
    choose.add_argument("--remove", nargs="+", default=[], metavar="NAME", help="remove recordings by name or pattern")
    choose.add_argument("--keep", type=count, metavar="N", help="remove all but the N newest")
    choose.add_argument("--yes", "-y", action="store_true", help="remove without a question")
    add_format_flags(parser)
    add_color_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """List, or remove."""
    from gpudoctor.recorder.kept_recordings import kept_recordings

    recordings = kept_recordings()
    if arguments.remove or arguments.keep is not None:
        return _remove(recordings, arguments)
    if arguments.yes:
        raise UsageError("--yes needs --remove or --keep; add one of them")
    if arguments.format == "json":
        _print_json(recordings)
        return 0
    _show(recordings, arguments)
    return 0


def _show(recordings: "list[KeptRecording]", arguments: argparse.Namespace, *, total: bool = True) -> None:
    from gpudoctor.ui.encoding import write_text

    width, colour = look(arguments)
    write_text(_listed(recordings, width, colour, total=total), sys.stdout, rendered=True)


def _remove(recordings: "list[KeptRecording]", arguments: argparse.Namespace) -> int:
    from gpudoctor.recorder.kept_recordings import chosen, remove

    names = [name.rstrip("/").rpartition("/")[2] for name in arguments.remove]
    unwanted = chosen(recordings, names, arguments.keep)
    if not unwanted:
        if names and not chosen(recordings, names):
            running = tr("; it is being written now") if any(item.running for item in recordings) else ""
            raise UsageError(
                "--remove {names}: no recording has this name{running} (all of them: gpudoctor recordings)",
                names=" ".join(arguments.remove),
                running=running,
            )
        show(tr("nothing to remove\n"))
        return 0
    what = tr(
        "{counted}, {unwanted}",
        counted=counted(len(unwanted), "recording"),
        unwanted=size(sum(item.bytes for item in unwanted)),
    )
    if not arguments.yes:
        _show(unwanted, arguments, total=False)
        if not answers_yes(tr("remove {what}?", what=what)):
            show(tr("nothing was removed; these are {what}; remove them: add --yes\n", what=what))
            return 0
    failed = [tr("{path}: {reason}", path=item.path, reason=reason) for item in unwanted if (reason := remove(item))]
    show(tr("removed {counted}\n", counted=counted(len(unwanted) - len(failed), "recording")))
    if failed:
        raise IncompleteError(concatenated("; ", failed))
    return 0


def _print_json(recordings: "list[KeptRecording]") -> None:
    import json
    from datetime import datetime, timezone

    rows = [
        {
            "name": item.name,
            "path": str(item.path),
            "started": datetime.fromtimestamp(item.started, timezone.utc).isoformat(timespec="seconds"),
            "command": list(item.command),
            "folder": item.folder,
            "steps": item.steps,
            "bytes": item.bytes,
            "outcome": item.outcome,
            "exit_code": item.exit_code,
            "running": item.running,
        }
        for item in recordings
    ]
    show(json.dumps(rows, indent=2) + "\n")


def _listed(recordings: "list[KeptRecording]", width: int, colour: bool, *, total: bool = True) -> str:
    """Two lines a recording: name, age, steps, size and command; then its folder and its verdict."""
    from gpudoctor.recorder.folder import state_folder
    from gpudoctor.ui.console.canvas import Canvas

    canvas = Canvas(width, colour)
    if not recordings:
        canvas.paragraph(tr("No recording in {state_folder}.", state_folder=state_folder()))
        canvas.literal(tr("make one: gpudoctor run -- python train.py"))
        return canvas.text()
    now = time.time()
    rows = [
        (
            item.name,
            ago(now - item.started),
            tr("? steps") if item.steps is None else rendered(counted(item.steps, "step")),
            size(item.bytes),
            short_command(item.command),
        )
        for item in recordings
    ]
    home = os.path.expanduser("~")
    canvas.clipped_columns(
        rows,
        [" ".join((f"{item.folder.replace(home, '~', 1)}:", *rendered(item.outcome).split())) for item in recordings],
    )
    if total:
        canvas.blank()
        canvas.literal(
            tr(
                "{counted}, {recordings} in {state_folder}",
                counted=counted(len(rows), "recording"),
                recordings=size(sum(i.bytes for i in recordings)),
                state_folder=state_folder(),
            )
        )
        canvas.literal(tr("report on one: gpudoctor report {name}", name=recordings[0].name))
        if len(rows) > _KEPT:
            canvas.literal(tr("remove all but the 10 newest: gpudoctor recordings --keep 10"))
    return canvas.text()


def short_command(words: tuple[str, ...]) -> str:
    """A command line in which absolute paths are file names."""
    return " ".join(os.path.basename(word) if word.startswith("/") else word for word in words)


def ago(seconds: float) -> str:
    """An age: `just now`, `5 min ago`, `3 h ago`, `12 days ago`."""
    if seconds < 60:
        return tr("just now")
    for unit, name in ((86400, "day"), (3600, "h"), (60, "min")):
        if (number := int(seconds // unit)) >= 1:
            age = counted(number, "day") if name == "day" else f"{number} {name}"
            return tr("{age} ago", age=age)
    return tr("just now")
