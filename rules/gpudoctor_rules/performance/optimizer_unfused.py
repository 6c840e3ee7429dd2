"""Answers PERF005 optimizer-unfused."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, KeywordEdit, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfusedDetail

_FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})


class OptimizerUnfusedRule(Rule):
    """The fused form where torch has one, else all tensors together."""

    answers = Code("PERF005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(OptimizerUnfusedDetail)
        kind, optimizer = detail.kind, detail.optimizer
        span = finding.span
        edits: tuple[KeywordEdit, ...] = ()
        effort = Effort.SMALL_EDIT
        if kind == "foreach" and span is not None:
            fused = optimizer in _FUSED
            title = "fused=True" if fused else say("Drop foreach=False")
            change = (("fused", "True"),) if fused else ()
            spans = [item for item in finding.evidence if isinstance(item, SourceSpan)]
            edits = tuple(
                KeywordEdit(path=item.path, line=item.line, column=item.column, set=change, remove=("foreach",))
                for item in spans[: detail.calls or 1]
            )
            effort = Effort.ONE_LINE
        elif kind == "version":
            title, effort = say("install torch 2.0 or newer, or set foreach=True"), Effort.COMMAND
        elif kind == "old":
            title = "torch.optim.AdamW(..., fused=True)"
        elif kind == "hand":
            title = "torch.optim.SGD(model.parameters(), lr=lr, fused=True)"
        else:
            title = say("use torch._foreach_* operations over all parameters, or torch.compile(optimizer.step)")
        yield Remedy(
            id="PERF005-fused",
            title=title,
            steps=(say("Line {line}: {change}", line=span.line if span is not None else 0, change=title),),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=effort,
            override=(("optimizer.fused", "True"),),
            effect=None,  # the optimizer's share of a step is a run's to measure
            edits=edits,
            references=("https://pytorch.org/docs/stable/optim.html#algorithms",),
        )
