"""SYNC004 per-sample-metrics."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.analysis.run.steady_run import judged, watched
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, often
from gpudoctor.analysis.source.metrics import is_metric
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, SourceSpan, Threshold
from gpudoctor.text import joined


class PerSampleMetrics(Check):
    """The training step computes metrics sample by sample, or with a CPU library, on every step.

    What it finds:
        Calls of CPU metric libraries (scikit-learn, SciPy, NLTK, sacrebleu, rouge) in a training loop, more
        often than every ten passes. In a recording also Python loops that read the samples of a batch one by one.
    Why it hurts:
        Each read waits for the GPU and moves a few bytes. A batch of 64 with three reads per sample is 192
        waits. CPU libraries first need the whole batch on the host, and check and copy it. They need 1 to 10 ms
        for what the GPU does in microseconds. The GPU idles meanwhile, in each step.
    How it knows:
        From the source: which calls a pass reaches and under which conditions. From a recording: many reads of
        the device on one line, in each step.
    False alarms:
        Steps of many seconds. Metrics in evaluation, once an epoch, or every ten steps or less often are not
        reported.
    Remedies:
        Compute the metric every 10 steps, on the whole batch and on the device (torchmetrics or tensor
        operations). Read the result once.
    References:
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code = "SYNC004"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "metric_period",
            10,
            "{steps}",
            "the catalogue's S4 (training-step fix): metrics every 10 steps",
            "Metrics more often than once in this many steps are a finding.",
        ),
        *Threshold.note_and_warning("Metrics that take this share of a recorded run are", noted=0.05, warned=0.1),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        seen = self._seen(patient)
        if seen is None:
            yield from self._suspected(patient)
            return
        severity = seen.level(self)
        if severity is None:
            return
        yield seen.finding(
            self,
            say(
                "Metrics computed in the step take {cost}{of_a_step}{where}.",
                cost=seen.words,
                of_a_step=seen.of_a_step,
                where=seen.where,
            ),
            name="metrics_share",
            severity=severity,
            suspected=suspicions(lambda: self._suspected(patient), seen),
            detail=Facts(period=1, norm=None),
        )

    def _seen(self, patient: Patient) -> Observation | None:
        if (window := watched(patient)) is not None:
            return of_run.seen_live(window, lambda place: place.kind == "metric")
        run = judged(patient)
        if run is None:
            return None
        seen = of_run.price(patient, run, owners=(of_run.LineOwner.METRICS,))
        heads = (head for span in seen.spans for head in of_run.loop_heads(patient, span))
        return seen.also_at(heads)

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        every = self.limit("metric_period")
        found = calls_in_training(patient.source, lambda item: is_metric(item.call), every=every, skip=full_batch)
        return map(self._from_source, found)

    def _from_source(self, found: list[TrainingCall]) -> Finding:
        first, script, loop = found[0], found[0].script, found[0].loop
        names = dict.fromkeys(item.call.name for item in found)
        words = [say("{call} runs on the CPU", call=name) for name in names]
        spans: list[SourceSpan] = list(dict.fromkeys(item.event.span for item in found))
        return self.finding(
            say(
                "{metrics} {often} (loop at line {line}).",
                metrics=joined(words[:2]),
                often=often(first.period),
                line=loop.span.line,
            ),
            evidence=tuple(spans[:8]),
            subject=f"{script.path}:{loop.span.line}",
            detail=Facts(period=first.period, norm=self.limit("metric_period")),
        )
