"""Answers LOOP012: one shape for outputs and targets."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class SilentBroadcastRule(Rule):
    """One shape for both."""

    answers = Code("LOOP012")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        wide, flat = ("output", "target") if finding.fact("column") else ("target", "output")
        yield Remedy(
            id="LOOP012-shape",
            title=f"{wide}.squeeze(1) in the loss, or {flat}.unsqueeze(1)",
            steps=(
                f"give the loss {wide}.squeeze(1) in place of {wide}: both then have the shape of {flat}",
                f"write assert {wide}.squeeze(1).shape == {flat}.shape before the loss, so that it stays so",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            references=("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",),
        )
