"""Answers ENV013 visible-devices-wrong."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.text import count
from gpudoctor_checks.environment.visible_devices_wrong import VisibleDevicesWrongDetail

_VARIABLE = "CUDA_VISIBLE_DEVICES"


class VisibleDevicesWrongRule(Rule):
    """The value that names GPUs that are there, or the ranks that they allow."""

    answers = Code("ENV013")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(VisibleDevicesWrongDetail)
        kind, gpus = detail.kind, detail.gpus
        if kind == "value":
            yield self._set(_wanted(patient, gpus), gpus, finding)
        elif kind == "ranks":
            if gpus > 0:
                yield self._ranks(gpus)
            yield self._unset(say("let every rank have a GPU: unset it, or ask the scheduler for more GPUs"), finding)
        elif kind == "granted":
            yield self._unset(say("unset it: the scheduler has chosen the GPUs"), finding)

    def _set(self, wanted: int, gpus: int, finding: Finding) -> Remedy:
        value = ",".join(str(index) for index in range(wanted))
        span = finding.span
        place = (
            say("in {path}, line {line}", path=span.path, line=span.line)
            if span is not None
            else say("before the launch line")
        )
        return Remedy(
            id=f"{self.answers}-value",
            title=f"export CUDA_VISIBLE_DEVICES={value}",
            steps=(
                say(
                    "export CUDA_VISIBLE_DEVICES={value}   # {place}; this machine has GPU 0 to {last}"
                    if gpus > 1
                    else "export CUDA_VISIBLE_DEVICES={value}   # {place}; this machine has GPU 0",
                    value=value,
                    place=place,
                    last=gpus - 1,
                ),
                "or unset CUDA_VISIBLE_DEVICES to use all of them",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            sets=(("CUDA_VISIBLE_DEVICES", value),),
        )

    def _ranks(self, gpus: int) -> Remedy:
        return Remedy(
            id=f"{self.answers}-ranks",
            title=say("launch {ranks} on this node", ranks=count(gpus, "rank")),
            steps=(say("torchrun --nproc_per_node={gpus} ...   # keep the batch: accumulate more steps", gpus=gpus),),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("ranks_per_node", str(gpus)),),
        )

    def _unset(self, title: str, finding: Finding) -> Remedy:
        span = finding.span
        line = (
            say("delete {path}, line {line}: {statement}", path=span.path, line=span.line, statement=span.text)
            if span is not None
            else f"unset {_VARIABLE}"
        )
        return Remedy(
            id=f"{self.answers}-unset",
            title=title,
            steps=(line, "nvidia-smi -L"),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            sets=(("CUDA_VISIBLE_DEVICES", ""),),
        )


def _wanted(patient: Patient, gpus: int) -> int:
    """GPUs that the job needs: one a rank, all for a job whose ranks nobody says."""
    ranks = ranks_here(patient)
    return max(1, min(ranks, gpus)) if ranks > 1 else max(1, gpus)
