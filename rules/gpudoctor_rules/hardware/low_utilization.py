"""Answers GPU001: cure the cause."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class LowUtilizationRule(Rule):
    """Cure the cause."""

    answers = Code("GPU001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        explained = bool(finding.fact("explained"))
        yield Remedy(
            id="GPU001-cause",
            title="cure the cause that the other findings name"
            if explained
            else "find what the host does meanwhile",
            steps=(
                "the finding of that part of the step shows how; utilisation follows"
                if explained
                else "py-spy dump --pid PID; PERF011 where the host only launches, PERF014 where its own "
                "lines take the time",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
