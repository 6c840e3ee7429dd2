"""Answers DIST009: find what that rank alone holds."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class RankMemorySkewRule(Rule):
    """Find what that rank alone holds."""

    answers = Code("DIST009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        rank = finding.fact("rank")
        yield Remedy(
            id="DIST009-map",
            title="torch.cuda.set_device(local_rank) before anything else; map_location='cpu' for checkpoints",
            steps=(
                "torch.cuda.set_device(local_rank)                       # or all ranks open a context on "
                "cuda:0",
                "torch.load(path, map_location='cpu')                    # or every rank loads onto the "
                "saver's device",
                f"nvidia-smi: which processes are on the card of rank {rank}?",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
        )
