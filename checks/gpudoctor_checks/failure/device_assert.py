"""FAIL003 device-assert."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor_checks.failure.exception_causes import beyond
from gpudoctor_checks.failure.told_death import told_death


class DeviceAssert(Check):
    """A kernel on the device failed: an assertion, or an illegal memory access.

    What it finds:
        An exception about a device-side assert, an illegal memory access or another device error. The finding
        names the last user line before it.
    Why it hurts:
        The error appears at a later call than its cause, and the process can no longer use the device.
    How it knows:
        From a recording: the exception's message, the step and the phase. CUDA reports kernels' errors late, so
        the line is where the error appeared. If the labels of earlier losses came from the loader's batch,
        gpudoctor checks those of the last batch. It compares them with the number of classes. From a job's log:
        the messages that name it, in the exception or line that came first.
    False alarms:
        Out of memory is a different error with its own check.
    Remedies:
        Check labels and indices first: a class number at or above the number of classes is the usual cause.
        CUDA_LAUNCH_BLOCKING=1 shows the true line.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    code = "FAIL003"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "cuda_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = told_death(patient, "ASSERT")
        if found is None:
            return
        told, outside = found.told, beyond(found.told)
        why = say(" {outside}.", outside=outside[0]) if outside is not None else ""
        yield self.finding(
            say(
                "A kernel on the device failed{when}: {first}.{why} The reported line is not always the line that "
                "launched the kernel.",
                when=found.when,
                first=found.first,
                why=why,
            ),
            evidence=(*found.spans, found.quoted()),
            breaks=say("the run died"),
            subject=told.kind,
            detail=Facts(asserted="device-side assert" in told.message, cure=outside[1] if outside is not None else ""),
        )
