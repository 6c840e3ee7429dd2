"""ENV007 cpu-budget."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import Threads, Workers, has_purpose, optional, read_threads, read_workers, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Resource, Severity, Threshold
from gpudoctor.model.evidence import Evidence, Measurement, Provenance, Setting
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.signs.job import Launch
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count


class CpuBudget(Check):
    """The job starts far more processes and threads than it has CPUs.

    What it finds:
        - Ranks x (loader workers + threads) over twice the CPUs that quota, affinity and the scheduler allow.
        - Torch's own thread pool in a container whose CPU quota it cannot see.
        - An srun in a batch script that does not get the CPUs a task of the script (a note).
    Why it hurts:
        Threads beyond the CPUs take turns. Under a cgroup quota the whole job stops for the rest of each 100 ms
        period, and the GPU waits.
    How it knows:
        Ranks come from the launch line or the scheduler, workers from the script or config. Threads come from a
        recording, torch.set_num_threads, OMP_NUM_THREADS, or the defaults of torchrun and torch. CPUs from the
        cgroup quota, the affinity mask and the scheduler's grant.
    False alarms:
        Torch's default pool mostly sleeps if all work is on the GPU. If only that pool exceeds the budget, it
        is a note. DATA003 reports one loader with more workers than CPUs.
    Remedies:
        Set OMP_NUM_THREADS and the workers per rank; the finding has the numbers for this machine.
    References:
        - https://github.com/pytorch/pytorch/blob/main/torch/distributed/run.py (OMP_NUM_THREADS)
        - https://github.com/pytorch/pytorch/issues/22501
    """

    code = "ENV007"
    reads = frozenset({Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "oversubscription",
            2.0,
            "1",
            "convention: twice, since workers wait for storage part of the time",
            "More processes and threads than this many times the CPUs compete for them.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        job = optional(lambda: patient.job)
        for row in job.launches if job is not None else ():
            asked = row.grants.cpus_per_task
            if asked and _gets_less(row, asked):
                yield self._withheld(row, asked)
                return
        cpus, evidence = self._cpus(patient)
        ranks = ranks_here(patient)
        workers = read_workers(patient)
        threads = read_threads(patient)
        if self._exceeds(patient, cpus, ranks, workers, threads):
            yield self._too_many(cpus, evidence, ranks, workers, threads)

    def _withheld(self, row: Launch, asked: int) -> Finding:
        return self.finding(
            say(
                "sbatch asks for {asked} CPUs a task. From Slurm 22.05 on srun does not hand them on: a task gets 1.",
                asked=asked,
            ),
            evidence=(Setting(key="launch", value=row.text, origin=row.path or "", path=row.path, line=row.line),),
            confidence=Confidence.PROBABLE,
            severity=Severity.NOTE,
            subject="srun",
            scarce=Resource.CPU,
            detail=Facts(kind="srun", cpus=1, ranks=row.here or 1, workers=0, threads=1),
        )

    def _cpus(self, patient: Patient) -> tuple[float, tuple[Evidence, ...]]:
        """CPUs of the whole job on this node, and what says so."""
        job = optional(lambda: patient.job)
        granted = job.cpus_granted if job is not None else None
        if granted and job is not None and not runs_here(patient):
            return granted, (Measurement("cpus_granted", granted, "{CPUs}", provenance=Provenance.DECLARED),)
        if not runs_here(patient):
            raise Unavailable(say("the job script runs on another machine"))
        host = patient.host
        cpus = min(host.cpu_budget, granted or host.cpu_budget)
        shown: list[Evidence] = [
            Measurement("cpu_budget", cpus, "{CPUs}", reproduce="nproc; cat /sys/fs/cgroup/cpu.max")
        ]
        shown += [Measurement("cpu_quota", host.cpu_quota, "{CPUs}")] if host.cpu_quota is not None else []
        return cpus, tuple(shown)

    def _exceeds(self, patient: Patient, cpus: float, ranks: int, workers: Workers, threads: Threads) -> bool:
        allowed = self.limit("oversubscription") * cpus
        if ranks == 1 and threads.by_default and threads.count > allowed:
            return has_purpose(patient)  # a quota that torch cannot see
        if ranks == 1 and (workers.count or 0) > cpus:
            return threads.count > allowed  # one loader's workers are another check's
        return ranks * ((workers.count or 0) + threads.count) > allowed

    def _too_many(
        self, cpus: float, evidence: tuple[Evidence, ...], ranks: int, workers: Workers, threads: Threads
    ) -> Finding:
        each = workers.count or 0
        limit = self.limit("oversubscription")
        numbers: dict[str, object] = {
            "ranks": count(ranks, "rank"),
            "workers": count(each, "worker"),
            "origin": threads.origin,
            "threads": count(threads.count, "thread"),
            "total": ranks * (each + threads.count),
            "cpus": cpus,
        }
        pool_alone = ranks * (each + 1) <= limit * cpus and threads.by_default
        return self.finding(
            say(
                "{ranks} x ({workers} + {threads}; {origin}) make {total} on {cpus:g} CPUs, more than {limit:g} times "
                "as many.",
                **numbers,
                limit=limit,
            ),
            evidence=(*((threads.call.span,) if threads.call is not None else ()), *evidence, *workers.evidence),
            confidence=Confidence.CONFIRMED if threads.recorded else Confidence.PROBABLE,
            severity=Severity.NOTE if pool_alone else Severity.WARNING,
            subject="CPUs",
            scarce=Resource.CPU,
            detail=Facts(
                kind="threads" if pool_alone else "both", cpus=cpus, ranks=ranks, workers=each, threads=threads.count
            ),
        )


def _gets_less(row: Launch, asked: int) -> bool:
    """Whether srun gives a task of the script fewer CPUs than sbatch was asked for."""
    if "srun" not in (row.launcher, row.starter) or not row.path or not row.cpus:
        return False
    ranks_of_task = 1 if row.launcher == "srun" else row.ranks_per_node or 1
    return row.cpus * ranks_of_task < asked
