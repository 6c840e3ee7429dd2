"""Answers DIST007 find-unused."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class FindUnusedRule(Rule):
    """Stop looking."""

    answers = Code("DIST007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        span = finding.span
        yield Remedy(
            id="DIST007-drop",
            title="find_unused_parameters=False",
            steps=(
                say("Line {line}: drop find_unused_parameters.", line=span.line if span else 0),
                "If a parameter gets no gradient after all, DDP stops at the next step and names it.",
            ),
            applicability=Applicability.UNSAFE,  # a run with an unused parameter would stop
            effort=Effort.ONE_LINE,
            override=(("ddp.find_unused_parameters", "False"),),
            references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
        )
