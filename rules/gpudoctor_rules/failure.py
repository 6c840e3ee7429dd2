"""Rules on the topic: failure."""

import shlex
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Effort, Finding, Patient, Remedy, answers
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.failure.exception import ExceptionDetail
from gpudoctor_rules.remedies import remedy


@answers("FAIL001")
def exception(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """By the class of cause."""
    detail = finding.detail_of(ExceptionDetail)
    if detail.silent:
        return
    title = detail.title
    span = finding.span
    where = f"{span.path}:{span.line}" if span is not None else say("the program's last lines")
    if detail.kind == "SystemExit" or span is None:
        yield _exit(where, known=span is not None)
        return
    yield remedy(
        f"FAIL001-{detail.cause or 'look'}",
        title or say("look at {place}", place=where),
        title or say("{place}: print the shapes, types and devices of what goes in", place=where),
        say(
            "python -m pdb -c continue {script}   # stops where it dies ({place})", script=_script(patient), place=where
        ),
    )


def _script(patient: Patient) -> str:
    """The script and its arguments, where the command is `python SCRIPT ...`; else the word for it."""
    recording = optional(lambda: patient.recorded_run)
    command = recording.command if recording else ()
    plain = len(command) > 1 and command[0].rpartition("/")[2].startswith("python")
    return shlex.join(command[1:]) if plain and not command[1].startswith("-") else "SCRIPT"


def _exit(where: str, known: bool) -> Remedy:
    """The program decided to end."""
    return remedy(
        "FAIL001-exit",
        say("read what it says before {where}", where=where) if known else say("read {where}", where=where),
        say("{where}: the condition above it shows why; let it raise an exception with the reason", where=where)
        if known
        else say("sys.exit ends a program without a traceback; let it raise an exception with the reason"),
    )


@answers("FAIL006")
def native_crash(finding: Finding) -> Iterator[Remedy]:
    """See the stack; versions that fit together."""
    span = finding.span
    where = say(" (it was called from {path}:{line})", path=span.path, line=span.line) if span is not None else ""
    yield remedy(
        "FAIL006-stack",
        "print the native stack once",
        say(
            "gdb -batch -ex run -ex bt --args python train.py ...   # the library's name "
            "is in the first frames{caller}",
            caller=where,
        ),
        "python -X faulthandler train.py ...                     # the Python side, if it is unknown",
        effort=Effort.COMMAND,
    )
