"""Answers MEM005: the cheapest change that gives memory back."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class NearLimitRule(Rule):
    """The cheapest change that gives memory back."""

    answers = Code("MEM005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="MEM005-checkpointing",
            title="gradient checkpointing, or half the micro batch with twice the accumulation",
            steps=(
                "model.gradient_checkpointing_enable()   # 20 to 30 % more time",
                "gpudoctor estimate ... --fit   # which changes fit, and what each gives back",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
        yield Remedy(
            id="MEM005-segments",
            title="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            steps=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # less lost to fragments",),
            applicability=Applicability.SAFE,
            effort=Effort.SETTING,
            sets=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
        )
