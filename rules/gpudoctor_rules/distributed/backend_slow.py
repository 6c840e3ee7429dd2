"""Answers DIST006 backend-slow."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule, Unavailable
from gpudoctor_checks.distributed.backend_slow import BackendSlowDetail


class BackendSlowRule(Rule):
    """NCCL for tensors on GPUs."""

    answers = Code("DIST006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(BackendSlowDetail)
        keyword, span = str(detail.keyword), finding.span
        line = span.line if span is not None else 0
        edits = tuple(_edits(finding, patient)) if detail.literal else ()
        steps = [
            say('Line {line}: {keyword}="nccl"', line=line, keyword=keyword)
            if edits
            else say("Launch with the backend nccl (line {line}).", line=line)
        ]
        steps.append(say("Each rank takes its own GPU first: torch.cuda.set_device(local_rank)."))
        yield Remedy(
            id="DIST006-nccl",
            title=f'{keyword}="nccl"',
            steps=tuple(steps),
            applicability=Applicability.UNSAFE,  # sums in another order
            effort=Effort.ONE_LINE if edits else Effort.SETTING,
            effect=None,  # from little on one node with few weights to several times
            sets=(("backend", "nccl"),),
            edits=edits,
            references=("https://pytorch.org/docs/stable/distributed.html#which-backend-to-use",),
        )


def _edits(finding: Finding, patient: Patient) -> Iterator[Edit]:
    detail = finding.detail_of(BackendSlowDetail)
    span = finding.span
    if span is None:
        return
    if not detail.positional:
        keyword = str(detail.keyword)
        yield KeywordEdit(path=span.path, line=span.line, column=span.column, set=((keyword, '"nccl"'),))
        return
    try:
        scripts = scripts_given(patient).scripts
    except Unavailable:
        return
    for script in scripts:
        for call in script.calls if script.path == span.path else ():
            if call.span == span and call.node.args and isinstance(call.node.args[0], ast.Constant):
                yield replace_node(script, call.node.args[0], '"nccl"')
                return
