"""Answers GPU009: its clocks, then another node."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class UnderperformsRule(Rule):
    """Its clocks, then another node."""

    answers = Code("GPU009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="GPU009-look",
            title=f"look at the clocks and neighbours of rank {finding.fact('rank')} on {finding.fact('node')}",
            steps=(
                "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER   # on that node, under load",
                "gpudoctor check   # throttling, power limits, PCIe, other processes on the card",
                "the same rank on another node: if it is fast there, drain this one",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ADMINISTRATOR,
        )
