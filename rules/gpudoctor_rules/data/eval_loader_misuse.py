"""Answers DATA007 eval-loader-misuse."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor.model.reading.cadence import settable


class EvalLoaderMisuseRule(Rule):
    """In order, whole, each sample once."""

    answers = Code("DATA007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        settings = tuple((name, "False") for name in ("shuffle", "drop_last") if finding.fact(name))
        span = finding.span
        if settings and span is not None:
            fits = settable(patient.source, span, *(name for name, _ in settings), free=2)
            edit = KeywordEdit(path=span.path, line=span.line, column=span.column, set=settings)
            title = ", ".join(f"{name}={value}" for name, value in settings)
            yield Remedy(
                id="DATA007-order",
                title=title,
                steps=(f"Pass {title} to the evaluation's loader.",),
                # The metric covers other samples, or the same in another order.
                applicability=Applicability.UNSAFE if fits else Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                edits=(edit,) if fits else (),
            )
        if finding.fact("sampler"):
            yield Remedy(
                id="DATA007-gather",
                title="gather the predictions and cut them to the length of the set",
                steps=(
                    "predictions = gathered[: len(dataset)]   # the repeats stand at the end",
                    "or evaluate on one rank; with accelerate: accelerator.gather_for_metrics(...)",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
            )
