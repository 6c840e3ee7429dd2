"""Answers SYNC004 per-sample-metrics."""

from collections.abc import Iterator

from gpudoctor.analysis.source.periodic_edits import thinned_everywhere
from gpudoctor.analysis.source.trainer_periods import period_for
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.sync.per_sample_metrics import PerSampleMetricsDetail

EVERY = 10
"""Steps between two metrics: the catalogue's S4."""


class PerSampleMetricsRule(Rule):
    """Every ten steps, on the whole batch, on the device."""

    answers = Code("SYNC004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(PerSampleMetricsDetail)
        every = period_for(finding, patient, EVERY, detail.period, detail.norm)
        edits = _edits(finding, patient, every)
        yield Remedy(
            id="SYNC004-every",
            title=say("compute metrics every {every} steps", every=every),
            steps=(say("if step % {every} == 0:   # around the metric's lines", every=every),),
            # The metric then averages a tenth of the steps: the numbers shown differ.
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            override=(("every", str(every)),),
            sets=(("metric_period", str(every)),),
            edits=edits,
        )


def _edits(finding: Finding, patient: Patient, every: int) -> tuple[Edit, ...]:
    """A guard around the metric, where it is a statement of its own: `meter.update(f1_score(...))`."""
    span = finding.span
    others = {part.line for part in finding.evidence if isinstance(part, SourceSpan)}
    if span is None or (len(others) != 1 and not finding.detail_of(PerSampleMetricsDetail).per_sample):
        return ()
    return thinned_everywhere(scripts_given(patient), span.path, span.line, span.column, every)
