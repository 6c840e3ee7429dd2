"""Answers PERF011: fewer and bigger kernels."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule


class LaunchBoundRule(Rule):
    """Fewer and bigger kernels."""

    answers = Code("PERF011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="PERF011-compile",
            title='torch.compile(model, mode="reduce-overhead")',
            steps=('model = torch.compile(model, mode="reduce-overhead")   # CUDA graphs; fixed shapes',),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=(("compile", "reduce-overhead"),),
        )
        yield Remedy(
            id="PERF011-batch",
            title="a greater micro batch, and less accumulation",
            steps=(
                "the same effective batch in fewer passes: batch_size * 2, gradient_accumulation_steps / 2",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SETTING,
            uses=frozenset({Resource.DEVICE_MEMORY}),
        )
        yield Remedy(
            id="PERF011-fused",
            title="fused=True for the optimizer",
            steps=("torch.optim.AdamW(..., fused=True)   # one kernel instead of hundreds",),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
