"""Answers FAIL001: by the class of cause."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class UncaughtRule(Rule):
    """By the class of cause."""

    answers = Code("FAIL001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        title = str(finding.fact("title") or "")
        span = finding.span
        where = f"{span.path}:{span.line}" if span is not None else "the line above"
        yield Remedy(
            id=f"FAIL001-{finding.fact('cause') or 'look'}",
            title=title or f"look at {where}",
            steps=(
                title or f"{where}: print the shapes, types and devices of what goes in",
                f"python -m pdb -c continue ...   # stops where it dies ({where})",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
