"""Answers ENV007 cpu-budget."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule

_OMP = "https://docs.pytorch.org/docs/stable/threading_environment_variables.html"
_MOST_THREADS = 16
"""More threads a rank have nothing to do while the work is on the GPU."""


class CpuBudgetRule(Rule):
    """OMP_NUM_THREADS and workers a rank, so that all ranks together fit the CPUs."""

    answers = Code("ENV007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        del patient
        cpus, ranks = float(finding.fact("cpus") or 1), int(finding.fact("ranks") or 1)
        workers, threads = int(finding.fact("workers") or 0), int(finding.fact("threads") or 1)
        each = max(1, int(cpus / ranks))
        if finding.fact("kind") == "torchrun":
            spare = min(_MOST_THREADS, max(1, each - workers))
            yield self._threads(spare, f"each of {ranks} ranks has {cpus / ranks:g} CPUs")
            return
        fewer = min(workers, max(1, each - 1)) if workers else 0
        if threads > max(1, each - fewer):
            yield self._threads(min(_MOST_THREADS, max(1, each - fewer)), f"{cpus:g} CPUs, {ranks} rank(s)")
        if fewer < workers:
            yield self._workers(fewer, workers, each)

    def _threads(self, threads: int, because: str) -> Remedy:
        return Remedy(
            id=f"{self.answers}-threads",
            title=f"export OMP_NUM_THREADS={threads}",
            steps=(f"export OMP_NUM_THREADS={threads}   # before the launch line: {because}",),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=(("OMP_NUM_THREADS", str(threads)),),
            override=(("env.OMP_NUM_THREADS", str(threads)),),
            references=(_OMP,),
        )

    def _workers(self, fewer: int, workers: int, each: int) -> Remedy:
        return Remedy(
            id=f"{self.answers}-workers",
            title=f"num_workers={fewer} a rank instead of {workers}",
            steps=(f"num_workers={fewer}: each rank has {each} CPU{'s' if each > 1 else ''} to itself",),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=(("DataLoader.num_workers", str(fewer)),),
            override=(("DataLoader.num_workers", str(fewer)),),
            uses=frozenset[Resource](),
            references=("https://pytorch.org/docs/stable/data.html#multi-process-data-loading",),
        )
