"""Answers FAIL004: the rank that stood elsewhere."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class CollectiveTimeoutRule(Rule):
    """The rank that stood elsewhere."""

    answers = Code("FAIL004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        rank = finding.fact("rank")
        yield Remedy(
            id="FAIL004-same",
            title=f"let rank {rank} call the same operations as the others"
            if isinstance(rank, int) and rank >= 0
            else "let all ranks call the same operations",
            steps=(
                "no collective in a branch that not all ranks take (if rank == 0: dist.all_reduce(...))",
                "as many batches for every rank: drop_last=True, or model.join() for uneven inputs",
                "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 shows the operation by rank",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
        if finding.fact("mismatch"):
            return  # nobody came late
        yield Remedy(
            id="FAIL004-longer",
            title="a longer timeout, if one rank works longer on purpose",
            steps=("dist.init_process_group(..., timeout=datetime.timedelta(hours=1))",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
        )
