"""Answers MEM009: by the moment at which it happened."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class OutOfMemoryRule(Rule):
    """By the moment at which it happened."""

    answers = Code("MEM009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        cause = finding.fact("cause")
        if cause == "fragments":
            yield Remedy(
                id="MEM009-segments",
                title="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                steps=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",),
                applicability=Applicability.SAFE,
                effort=Effort.SETTING,
                sets=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
            )
        if cause == "leak":
            yield Remedy(
                id="MEM009-leak",
                title="stop the leak: nothing of a step may keep its graph",
                steps=("losses.append(loss.detach()), total += loss.item(); del outputs that live on",),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
            )
        if cause == "evaluation":
            yield Remedy(
                id="MEM009-evaluation",
                title="with torch.inference_mode(): around the evaluation, and a smaller batch there",
                steps=("with torch.inference_mode():   # no graph is kept", "outputs to the CPU as they come"),
                applicability=Applicability.SAFE,
                effort=Effort.ONE_LINE,
            )
        yield Remedy(
            id="MEM009-batch",
            title="half the micro batch, twice the accumulation",
            steps=(
                "the same effective batch: batch_size / 2, gradient_accumulation_steps * 2",
                "gpudoctor estimate ... --fit   # which changes fit, and what each gives back",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SETTING,
        )
        yield Remedy(
            id="MEM009-checkpointing",
            title="gradient checkpointing, or bf16",
            steps=(
                "model.gradient_checkpointing_enable()   # 20 to 30 % more time, a fraction of the activations",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
