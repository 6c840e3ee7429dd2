"""Answers DATA007 eval-loader-misuse."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import settable
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuseDetail

_TOTAL = say("Divide by len(loader.dataset): len(loader) times the batch size counts a last batch that is not full.")


class EvalLoaderMisuseRule(Rule):
    """In order, whole, each sample once."""

    answers = Code("DATA007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(EvalLoaderMisuseDetail)
        settings = tuple(
            (name, "False") for name, wrong in (("shuffle", detail.shuffle), ("drop_last", detail.drop_last)) if wrong
        )
        span = finding.span
        if settings and span is not None:
            whole = detail.drop_last and _counts_whole_batches(patient)
            fits = not whole and settable(patient.source, span, *(name for name, _ in settings), free=2)
            edit = KeywordEdit(path=span.path, line=span.line, column=span.column, set=settings)
            title = ", ".join(f"{name}={value}" for name, value in settings)
            yield Remedy(
                id="DATA007-order",
                title=title,
                steps=(
                    say("Pass {settings} to the evaluation's loader.", settings=title),
                    *((_TOTAL,) if whole else ()),
                ),
                # The metric covers other samples, or the same in another order.
                applicability=Applicability.UNSAFE if fits else Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                edits=(edit,) if fits else (),
            )


def _counts_whole_batches(patient: Patient) -> bool:
    """Whether the program counts samples as the loader's length times the batch size."""
    return any(
        isinstance(node.op, ast.Mult) and any(_length(side) for side in (node.left, node.right))
        for script in patient.source.scripts
        for node in nodes(script, ast.BinOp)
    )


def _length(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "len"
        and len(node.args) == 1
        and not ast.unparse(node.args[0]).endswith("dataset")
    )
