"""Answers PERF009 gpu-unused."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule
from gpudoctor_checks.performance.gpu_unused import GpuUnusedDetail

_CHOICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'


class GpuUnusedRule(Rule):
    """Choose the device once; move the model before the optimizer is made, and every batch."""

    answers = Code("PERF009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(GpuUnusedDetail)
        kind = detail.kind
        steps = []
        if kind == "cpu":
            steps.append(
                say("Replace the device by: {choice}" if detail.named else "At the top: {choice}", choice=_CHOICE)
            )
        if kind in ("cpu", "chosen") or detail.moved == "batch":
            steps.append(say("model = model.to(device)  # before the optimizer is made"))
        if kind in ("cpu", "chosen") or detail.moved == "model":
            steps.append(say("In the loop: x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)"))
        yield Remedy(
            id="PERF009-device",
            title="Move what stays behind to the device" if kind == "half" else "Train on the GPU: .to(device)",
            steps=tuple(steps),
            applicability=Applicability.UNSAFE,  # other kernels, other rounding, other random numbers
            effort=Effort.SMALL_EDIT,
            effect=None,  # from nothing (a tiny model) to two orders of magnitude: nobody knows before a run
            uses=frozenset({Resource.DEVICE_MEMORY}),
            references=("https://pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code",),
        )
