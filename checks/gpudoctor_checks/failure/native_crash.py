"""FAIL006 native-crash."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, LogLine, Patient, Reads, Severity
from gpudoctor.text import capitalised
from gpudoctor_checks.failure.told_death import told_death


class NativeCrash(Check):
    """The process crashed outside of Python: a segmentation fault, an abort.

    What it finds:
        A run that ended by SIGSEGV, SIGABRT, SIGILL or SIGFPE. The finding has the Python stack of that moment,
        if recorded, and the extension that is the likely cause.
    Why it hurts:
        The log ends without a traceback or an exception.
    How it knows:
        From a recording: the signal's own record with its stack, the exit code, the kernel's message with the
        library's name. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        An abort that follows an uncaught C++ exception of torch has a message in the log: read it first.
    Remedies:
        Install compatible versions; rebuild the extension against this torch; run the line under gdb.
    References:
        - https://docs.python.org/3/library/faulthandler.html
    """

    code = "FAIL006"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "end_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = told_death(patient, "NATIVE")
        if found is None:
            return
        recording, told, _ = found
        lines = [
            line for line in (recording.end.kernel if recording.end else ()) if "segfault" in line or "trap" in line
        ]
        yield self.finding(
            say(
                "{who} crashed outside of Python{when} with {kind}{where}.",
                who=capitalised(found.who),
                when=found.when,
                kind=told.kind or say("a fault"),
                where=found.where,
            ),
            evidence=(
                *found.spans,
                *(LogLine(origin="the kernel", text=line) for line in lines[:2]),
                found.exit_code(),
            ),
            breaks=say("the run died"),
            subject=told.kind,
        )
