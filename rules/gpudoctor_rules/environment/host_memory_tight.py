"""Answers ENV009 host-memory-tight."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import optional, read_workers
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.job import Profile
from gpudoctor_checks.environment.host_memory_tight import HostMemoryTightDetail

GIB = 1 << 30


class HostMemoryTightRule(Rule):
    """The memory to ask for, or who takes it."""

    answers = Code("ENV009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(HostMemoryTightDetail)
        kind = detail.kind
        if kind == "swap":
            return
        # Twice the bare need, or as much as the GPUs hold: the data's own share comes on top of the first.
        need = int(detail.need)
        yield self._more(max(1, -(-(need if kind == "gpus" else 2 * need) // GIB)), patient)
        workers = read_workers(patient).count or 0
        if kind == "short" and workers > 1:
            yield self._fewer(workers)

    def _more(self, gib: int, patient: Patient) -> Remedy:
        job, host = optional(lambda: patient.job), optional(lambda: patient.host)
        container = host.container if host is not None else None
        profile = job.profile if job is not None else Profile.NONE
        if profile is Profile.SLURM:
            line = f"#SBATCH --mem={gib}G"
        elif profile is Profile.KUBERNETES or container == "kubernetes":
            line = say("resources: {{limits: {{memory: {gib}Gi}}, requests: {{memory: {gib}Gi}}}}", gib=gib)
        elif container in {"docker", "podman"} and host is not None and host.memory_limit is not None:
            line = say("{container} run --memory={gib}g ...", container=container, gib=gib)
        else:
            line = say("ps -eo rss,pid,user,args --sort=-rss | head   # which process uses the memory")
        return Remedy(
            id=f"{self.answers}-memory",
            title=say("give the job {gib} GiB of host memory", gib=gib),
            steps=(line,),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
            sets=(("host_memory", f"{gib}G"),),
        )

    def _fewer(self, workers: int) -> Remedy:
        half = max(1, workers // 2)
        return Remedy(
            id=f"{self.answers}-workers",
            title=say("set num_workers={half} instead of {workers}", half=half, workers=workers),
            steps=(say("num_workers={half}: each worker takes some hundred MiB before any data", half=half),),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("DataLoader.num_workers", str(half)),),
        )
