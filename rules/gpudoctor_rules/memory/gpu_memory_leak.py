"""Answers MEM001: let go of what each step leaves behind."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class GpuMemoryLeakRule(Rule):
    """Let go of what each step leaves behind."""

    answers = Code("MEM001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="MEM001-detach",
            title="keep numbers, not tensors with their graph",
            steps=(
                "losses.append(loss.item()) or loss.detach(), at the period at which it is read",
                "outputs = outputs.detach().cpu() for what must be kept; del what is not",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
        )
        yield Remedy(
            id="MEM001-bound",
            title="bound what is collected",
            steps=(
                "collections.deque(maxlen=1000) instead of a list; write to disk what must be whole",
                "torch.cuda.memory._record_memory_history(); "
                "torch.cuda.memory._dump_snapshot('mem.pickle')   # who holds it",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
