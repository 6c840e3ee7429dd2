"""FAIL005 bus-error."""

from collections.abc import Iterator

from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import known, optional
from gpudoctor.text import size
from gpudoctor_checks.failure.told_death import told_death


class BusError(Check):
    """The run died of a bus error, usually because shared memory was full.

    What it finds:
        - SIGBUS, in the training or in a loader worker, and messages about missing shared memory.
        - With the size of /dev/shm if the machine is available.
    Why it hurts:
        Workers pass their batches through shared memory. Docker gives a container 64 MiB of it. A write beyond
        its end is a bus error without a traceback.
    How it knows:
        From a recording: the signal or the exception's message. The size of /dev/shm is that of this machine
        now. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        A file that is truncated while it is memory-mapped gives the same signal. If /dev/shm is large, the
        finding mentions this.
    Remedies:
        Give the container more shared memory, or use another sharing strategy.
    References:
        - https://github.com/pytorch/pytorch/issues/5040
        - https://docs.docker.com/reference/cli/docker/container/run/#options
    """

    code = "FAIL005"
    reads = frozenset({Reads.RECORDING, Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "end_messages.toml"
    thresholds = (
        Threshold("shm_small", 1073741824, "B", "convention: below 1 GiB with workers",
                  "A /dev/shm below this is the likely cause."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = told_death(patient, "BUS")
        if found is None:
            return
        host = optional(lambda: patient.host)
        total = known(host.shm_total) if host is not None else None
        words = "."
        if total is not None:
            small = total < self.limit("shm_small")
            words = say(": /dev/shm has only {total}", total=size(total)) + (
                "." if small else say(", so check memory-mapped files that shrank.")
            )
        yield self.finding(
            say("The run died of a bus error{words}", words=words),
            evidence=(
                *found.spans,
                found.exit_code(),
                *([measured("shm_total", float(total), "B", found.recording)] if total is not None else []),
            ),
            breaks=say("the run died"),
            subject=found.told.kind,
            detail=Facts(small=total is None or total < self.limit("shm_small")),
        )
