"""Answers SYNC004 per-sample-metrics."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.reading.cadence import event_at, less_often
from gpudoctor.model.workload import scripts_given

EVERY = 10
"""Steps between two metrics: the catalogue's S4."""


class PerSampleMetricsRule(Rule):
    """Every ten steps, on the whole batch, on the device."""

    answers = Code("SYNC004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        edits = _edits(finding, patient)
        yield Remedy(
            id="SYNC004-every",
            title=f"metrics every {EVERY} steps",
            steps=(f"if step % {EVERY} == 0:   # around the metric's lines",),
            # The metric then averages a tenth of the steps: the numbers shown differ.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            override=(("every", str(EVERY)),),
            sets=(("metric_period", str(EVERY)),),
            edits=edits,
        )
        if finding.fact("per_sample"):
            yield Remedy(
                id="SYNC004-batched",
                title="the whole batch at once, on the device, read once",
                steps=(
                    "correct = (logits.argmax(-1) == labels).sum()   # one kernel for all samples",
                    "total_correct += correct                        # stays on the device, no .item()",
                    "total_correct.item()                            # once, when it is shown",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
            )
        else:
            yield Remedy(
                id="SYNC004-device",
                title="the metric on the device (torchmetrics), computed when it is shown",
                steps=(
                    "metric = torchmetrics.F1Score(task='multiclass', num_classes=n).to(device)",
                    "metric.update(logits.detach(), labels)   # in the step: no wait",
                    "metric.compute()                         # every few hundred steps, or once an epoch",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
                references=("https://lightning.ai/docs/torchmetrics/stable/pages/overview.html",),
            )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """A guard around a metric that is a statement of its own (`meter.update(f1_score(...))`), nothing else."""
    span = finding.span
    if span is None or len(finding.evidence) != 1 or finding.fact("per_sample"):
        return ()
    for script, loop in scripts_given(patient).training_loops:
        if script.path == span.path and loop.span.line == finding.fact("loop_line"):
            event = event_at(loop, span.line, span.column, span.path)
            if event is not None:
                return less_often(script, loop, event, EVERY)
    return ()
