"""Answers DIST007 find-unused."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor_checks.distributed.find_unused import FindUnusedDetail


class FindUnusedRule(Rule):
    """Stop looking."""

    answers = Code("DIST007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        span = finding.span
        edits = (
            (
                KeywordEdit(
                    path=span.path, line=span.line, column=span.column, remove=("find_unused_parameters",)
                ),
            )
            if span is not None and finding.detail_of(FindUnusedDetail).keyword
            else ()
        )
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
            edits=edits,
            references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
        )
