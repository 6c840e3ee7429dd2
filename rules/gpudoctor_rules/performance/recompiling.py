"""Answers PERF004: shapes that stay, or marked as dynamic."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class RecompilingRule(Rule):
    """Shapes that stay, or marked as dynamic."""

    answers = Code("PERF004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="PERF004-dynamic",
            title="torch.compile(model, dynamic=True), or torch._dynamo.mark_dynamic for the dimension "
            "that changes",
            steps=(
                "torch._dynamo.mark_dynamic(input_ids, 1)   # the length changes, one graph serves all",
                "or pad to few lengths (pad_to_multiple_of=64) and drop_last=True for the last batch",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
        yield Remedy(
            id="PERF004-look",
            title="see the guards that fail",
            steps=("TORCH_LOGS=recompiles,graph_breaks python train.py ...",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
        )
