"""Answers FAIL001: by the class of cause."""

import shlex
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.failure.exception import ExceptionDetail


class UncaughtRule(Rule):
    """By the class of cause."""

    answers = Code("FAIL001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(ExceptionDetail)
        if detail.silent:
            return
        title = detail.title
        span = finding.span
        where = f"{span.path}:{span.line}" if span is not None else say("the program's last lines")
        if detail.kind == "SystemExit" or span is None:
            yield _exit(where, known=span is not None)
            return
        yield Remedy(
            id=f"FAIL001-{detail.cause or 'look'}",
            title=title or say("look at {place}", place=where),
            steps=(
                title or say("{place}: print the shapes, types and devices of what goes in", place=where),
                say(
                    "python -m pdb -c continue {script}   # stops where it dies ({place})",
                    script=_script(patient),
                    place=where,
                ),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )


def _script(patient: Patient) -> str:
    """The script and its arguments, where the command is `python SCRIPT ...`; else the word for it."""
    recording = optional(lambda: patient.recorded_run)
    command = recording.command if recording else ()
    plain = len(command) > 1 and command[0].rpartition("/")[2].startswith("python")
    return shlex.join(command[1:]) if plain and not command[1].startswith("-") else "SCRIPT"


def _exit(where: str, known: bool) -> Remedy:
    """The program decided to end."""
    return Remedy(
        id="FAIL001-exit",
        title=say("read what it says before {where}", where=where) if known else say("read {where}", where=where),
        steps=(
            say("{where}: the condition above it shows why; let it raise an exception with the reason", where=where)
            if known
            else say("sys.exit ends a program without a traceback; let it raise an exception with the reason"),
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
