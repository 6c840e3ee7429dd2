"""Answers DIST008: look at the rank that stands elsewhere."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class HangRule(Rule):
    """Look at the rank that stands elsewhere."""

    answers = Code("DIST008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        rank = finding.fact("rank")
        odd = isinstance(rank, int) and rank >= 0
        yield Remedy(
            id="DIST008-rank",
            title=f"look at rank {rank}: it does not come to where the others wait"
            if odd
            else "look at where all of them are",
            steps=(
                "py-spy dump --pid PID   # of each rank, twice: what does not change is where it hangs",
                "a collective in a branch that not all ranks take; uneven numbers of batches; a lock held "
                "over a fork",
                "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 names the operation by rank",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
