"""ENV006 shm-too-small."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import Workers, has_purpose, optional, read_workers, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Cost, Facts, Finding, Patient, Reads, Resource, Severity, Threshold
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.unavailable import Absent, Unavailable
from gpudoctor.text import count, size


class ShmTooSmall(Check):
    """Shared memory (/dev/shm) is too small for the loader's workers.

    What it finds:
        A /dev/shm below 1 GiB with DataLoader workers or several ranks.
    Why it hurts:
        Workers pass finished batches through /dev/shm. When it is full the worker dies: "DataLoader worker is
        killed by signal: Bus error", often hours into the run. NCCL keeps its buffers there too.
    How it knows:
        Statvfs on /dev/shm, or the size that the launch line or pod asks for. Workers from the script or the
        config.
    False alarms:
        Small items (token ids) need little. If the workers are unknown it is a note. On a machine without a GPU,
        a job or a script the check is silent.
    Remedies:
        Give the container or the pod that size; delete left-over files.
    References:
        - https://github.com/pytorch/pytorch/issues/5040
        - https://docs.docker.com/reference/cli/docker/container/run/ (--shm-size, 64 MiB by default)
    """

    code = "ENV006"
    reads = frozenset({Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("shared_memory", 2**30, "B",
                  "pytorch/pytorch#5040; NVIDIA's containers ask for --shm-size=1g at least",
                  "Below it, loader workers or several ranks run out of shared memory."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        room, shown = self._room(patient)
        if room < self.limit("shared_memory"):
            yield from self._small(patient, room, shown, read_workers(patient), ranks_here(patient))

    def _room(self, patient: Patient) -> tuple[int, Measurement]:
        """Bytes of shared memory that the job will have."""
        job = optional(lambda: patient.job)
        granted = job.shared_memory_granted if job is not None else None
        if granted:
            return granted, Measurement("shm_granted", granted, "B", provenance=Provenance.DECLARED)
        if not runs_here(patient):
            raise Unavailable(say("the job script runs on another machine"))
        host = patient.host
        if isinstance(host.shm_total, Absent):
            raise Unavailable(host.shm_total.reason)
        return host.shm_total, Measurement("shm_total", host.shm_total, "B", reproduce="df -B1 /dev/shm")

    def _small(
        self, patient: Patient, room: int, shown: Measurement, workers: Workers, ranks: int
    ) -> Iterator[Finding]:
        floor = self.limit("shared_memory")
        said = say("/dev/shm has {room_total}, below {floor}", room_total=size(room), floor=size(floor))
        severity, cost = Severity.WARNING, Cost()
        if workers.count:
            severity = Severity.ERROR
            cost = Cost(breaks=say("a loader worker dies of a bus error when /dev/shm is full"))
            each = say(" in each of {ranks} ranks", ranks=ranks) if ranks > 1 else ""
            said += say(", and a loader starts {workers}{each}.", workers=count(workers.count, "worker"), each=each)
        elif ranks > 1:
            said += say(", and {ranks} ranks on this node exchange data through it.", ranks=ranks)
        elif workers.count == 0 or not has_purpose(patient):
            return
        else:
            said += say(": loader workers pass their batches through it.")
            severity = Severity.NOTE
        yield self.finding(
            said,
            evidence=(shown, *workers.evidence),
            confidence=Confidence.PROBABLE,
            severity=severity,
            cost=cost,
            subject="/dev/shm",
            scarce=Resource.SHARED_MEMORY,
            detail=Facts(workers=workers.count or 0, ranks=ranks),
        )
