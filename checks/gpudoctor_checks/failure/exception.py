"""FAIL001 exception."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.lang import say
from gpudoctor.model import Check, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.unavailable import optional
from gpudoctor.text import capitalised, count
from gpudoctor_checks.failure.exception_causes import CauseClass, cause_of
from gpudoctor_checks.failure.told_death import ToldDeath, told_death


@frozen
class ExceptionDetail(Detail):
    """What the rule reads."""

    cause: str
    """A word for the class of cause."""
    title: str
    """What to do about it."""
    kind: str
    """The exception's class."""
    silent: bool
    """The process was gone without a word."""


class Uncaught(Check):
    """The run died of a Python exception.

    What it finds:
        The first exception of the run among all ranks: its type, the user's innermost line, and its class of
        cause. Classes are shapes, devices, types, labels, files, modules, and a checkpoint that does not match.
    Why it hurts:
        The job ended. With many ranks the log ends in echoes (closed connections, lost peers), and the root
        cause is far above.
    How it knows:
        From a recording: each rank records its exception with its stack before it ends. The root is the
        earliest exception that is not about another rank's death. For a label or index out of range, the rank
        records the range and the number of valid ones.
    False alarms:
        Exceptions that were caught, Ctrl-C and an exit with code 0 are not findings. Other checks report deaths
        by memory, device asserts, collectives and workers.
    Remedies:
        Fix the cause at your line; the remedy depends on its class.
    References:
        - https://github.com/NVIDIA/nvidia-resiliency-ext
    """

    code = "FAIL001"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "program_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = told_death(patient, "EXCEPTION", "SILENT")
        if found is None or (not found.recording.ranks and _told_by_output(patient)):
            return
        _, told, span = found
        place = of_run.user_place(told)
        if span is not None and place is not None and not span.text:
            found = found._replace(place=replace(span, text=place[1]))
        cause = cause_of(told) if told.record is not None else None
        yield self.finding(
            _message(found, cause),
            evidence=(*found.spans, *([found.quoted(found.who)] if told.kind else ()), found.exit_code()),
            breaks=say("the run died"),
            subject=told.kind or "exit code",
            detail=ExceptionDetail(
                cause=cause.word if cause is not None else "",
                title=cause.cure if cause is not None else "",
                kind=told.kind,
                silent=not told.kind and told.process is not None and not told.process.clean,
            ),
        )


def _told_by_output(patient: Patient) -> bool:
    """Whether the command's output shows a death: the finding on it says more than an exit code."""
    log = optional(lambda: patient.job_log)
    return log is not None and first_cause(log) is not None


def _message(found: ToldDeath, cause: CauseClass | None) -> str:
    told = found.told
    echoes = (
        say(" {ranks} died as a consequence.", ranks=count(len(told.cascade), "other rank")) if told.cascade else ""
    )
    if not told.kind:
        return _silence(found, echoes)
    # its own full stop would follow another one
    first = found.first.removesuffix(".")
    why = say(" {cause}.", cause=cause.words) if cause is not None else ""
    shared = {"who": capitalised(found.who), "when": found.when, "where": found.where, "why": why, "echoes": echoes}
    if told.kind == of_run.EXIT:
        said = say("by sys.exit: {first}", first=first)
        if first.lstrip("-").isdigit():
            said = say("with exit code {first}", first=first)
        return say("{who} ended itself{when}{where} {said}.{why}{echoes}", said=said, **shared)
    return say("{who} died{when} of {kind}{where}: {first}.{why}{echoes}", kind=told.kind, first=first, **shared)


def _silence(found: ToldDeath, echoes: str) -> str:
    """Nobody said why: what is known of the way in which it ended."""
    recording, told, _ = found
    code = recording.end.exit_code if recording.end is not None else None
    if not recording.ranks and (failed := of_run.first_failed(recording)):
        return say("{failed}, before it imported torch. Its output holds the reason.", failed=capitalised(failed))
    if told.process is None or told.process.clean:
        return say(
            "The command ended with exit code {code}, and no process that imported torch recorded the reason. Read the "
            "command's last lines.",
            code=code,
        )
    return say(
        "{who} ended at once with exit code {code}{when}, with no recorded exception or signal. Possible causes: "
        "SIGKILL, os._exit or a library that ends the process.{echoes}",
        who=capitalised(found.who),
        code=code,
        when=found.when,
        echoes=echoes,
    )
