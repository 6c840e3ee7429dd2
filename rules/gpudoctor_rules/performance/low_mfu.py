"""Answers PERF012: more arithmetic a byte and a launch."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class LowMfuRule(Rule):
    """More arithmetic a byte and a launch."""

    answers = Code("PERF012")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="PERF012-more",
            title="bf16, torch.compile, fused attention, a greater micro batch",
            steps=(
                "torch.autocast('cuda', dtype=torch.bfloat16); torch.compile(model)",
                "torch.nn.functional.scaled_dot_product_attention for attention written by hand",
                "a greater micro batch until the memory is full (gpudoctor estimate ... --fit)",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
