"""Answers LOOP011: the teacher without gradients and in eval mode."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import statement
from gpudoctor.analysis.source.syntax_edits import alone, insert_after
from gpudoctor.analysis.source.syntax_places import find
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.loop.teacher_trained import TeacherTrainedDetail

_REFERENCES = ("https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html",)


class TeacherTrainedRule(Rule):
    """Switch gradients off around the forward, and the mode after the construction."""

    answers = Code("LOOP011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(TeacherTrainedDetail)
        teacher = detail.teacher
        if detail.how == "graph":
            yield Remedy(
                id="LOOP011-no-grad",
                title=say("put torch.no_grad() around {teacher}", teacher=teacher),
                steps=("with torch.no_grad():", f"    {finding.span.text if finding.span else teacher}"),
                # No edit: gradients may flow through a teacher, to its inputs or to its own parameters.
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                references=_REFERENCES,
            )
            return
        yield Remedy(
            id="LOOP011-eval",
            title=f"{teacher}.eval()",
            steps=(say("after it is built: {teacher}.eval()", teacher=teacher),),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=_eval(finding, patient, teacher),
            references=_REFERENCES,
        )


def _eval(finding: Finding, patient: Patient, teacher: str) -> tuple[Edit, ...]:
    found = find(scripts_given(patient), finding.detail_of(TeacherTrainedDetail).call)
    whole = statement(*found) if found is not None else None
    if found is None or not isinstance(whole, ast.Assign) or not alone(found[0], whole):
        return ()
    return (insert_after(found[0], whole, f"{teacher}.eval()"),)
