"""The verdict on a file that holds no run: a log of the kernel, or dumps."""

from collections.abc import Sequence

from gpudoctor.analysis.job_log.flight_verdict import STUCK_SECONDS, flight_verdict
from gpudoctor.engine.claims import Examined, unread_log
from gpudoctor.lang import say
from gpudoctor.model import Outcome, Patient, Ranked, Severity
from gpudoctor.model.signs.flight_recorder import FlightRecords
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.model.unavailable import optional
from gpudoctor.text import count


def pronounce_saved(patient: Patient, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """What such a file shows; "" for a recorded run."""
    case = Examined(patient=patient, outcomes=outcomes, notes=len(ranked))
    if (log := _saved_log(patient)) is not None:
        return _of_log(patient.title, log, ranked, case)
    if (dumps := optional(lambda: patient.flight_records)) is not None:
        return _of_dumps(dumps, ranked)
    return ""


def _of_dumps(dumps: FlightRecords, ranked: Sequence[Ranked]) -> str:
    """What the dumps of a flight recorder show without a log."""
    errors = [item.finding for item in ranked if item.finding.severity is Severity.ERROR]
    if errors:
        return say("The job stood still. {message}.", message=errors[0].message.partition(". ")[0].rstrip("."))
    return say("No operation waits in the flight-recorder dumps of {ranks}.", ranks=count(len(dumps.ranks), "rank"))


def stood_still(dumps: FlightRecords, ranked: Sequence[Ranked]) -> str:
    """The verdict on a job by its dumps, beside its script; "" if nothing waits in them."""
    verdict = flight_verdict(dumps, STUCK_SECONDS)
    if verdict is None:
        return ""
    more = _number(ranked, Severity.ERROR) - 1
    also = say(" gpudoctor found {errors}.", errors=count(more, "more error")) if more > 0 else ""
    return say("The job stood still. {sentences}{also}", sentences=verdict.sentences[0], also=also)


def _saved_log(patient: Patient) -> KernelLog | None:
    """The kernel log that was named; this machine's own, read or not, is no concern of a verdict."""
    log = optional(lambda: patient.kernel_log)
    return log if log is not None and log.saved else None


def _of_log(title: str, log: KernelLog, ranked: Sequence[Ranked], case: Examined) -> str:
    """What a saved kernel log tells: of the machine that wrote it, at the time that it was written."""
    if errors := _number(ranked, Severity.ERROR):
        return say(
            "The machine that wrote {title} was not fit for training ({counts}).",
            title=title, counts=count(errors, "error"),
        )  # fmt: skip
    if ranked:
        return say(
            "{title} has events of the GPU driver that need a look ({findings}).",
            title=title, findings=count(len(ranked), "finding"),
        )  # fmt: skip
    messages = count(log.read or 0, "kernel message")
    if missing := list(unread_log(case)):
        return say("{title} holds {messages}; {missing}.", title=title, messages=messages, missing=missing[0])
    return say("{title} holds {messages} and no Xid event.", title=title, messages=messages)


def _number(ranked: Sequence[Ranked], severity: Severity) -> int:
    return sum(item.finding.severity is severity for item in ranked)
