"""SYNC004 per-sample-metrics."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.analysis.run.steady_run import judged, ran_on_cpu, watched
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, often
from gpudoctor.analysis.source.device_tensors import DeviceTensors, training_target
from gpudoctor.analysis.source.metrics import is_metric, samples_around
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, SourceSpan, Threshold
from gpudoctor.text import joined
from gpudoctor_checks.sync.device_reads import read_word


class PerSampleMetrics(Check):
    """The training step computes metrics sample by sample, or with a CPU library, on every step.

    What it finds:
        Calls of CPU metric libraries (scikit-learn, SciPy, NLTK, sacrebleu, rouge) in a training loop, more
        often than every ten passes. Python loops over the samples of a batch that read device tensors one by
        one (`for i in range(len(preds)): ... preds[i].item()`).
    Why it hurts:
        Each read waits for the GPU and moves a few bytes. A batch of 64 with three reads per sample is 192
        waits. CPU libraries first need the whole batch on the host, and check and copy it. They need 1 to 10 ms
        for what the GPU does in microseconds. The GPU idles meanwhile, in each step.
    How it knows:
        From the source: which calls a pass reaches and under which conditions. A loop counts as per-sample if
        it runs over a tensor, its length or the batch size. gpudoctor follows the reads inside to the device.
    False alarms:
        Steps of many seconds. Metrics in evaluation, once an epoch, or every ten steps or less often are not
        reported. Neither are loops over dictionaries of losses and values that are already on the CPU.
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
        source = patient.source
        on_gpu = not ran_on_cpu(patient) and training_target(source).on_gpu
        what = _library if not on_gpu else lambda item: _library(item) or _sample_loop(item)
        for found in calls_in_training(source, what, every=self.limit("metric_period"), skip=full_batch):
            yield self._from_source(found)

    def _from_source(self, found: list[TrainingCall]) -> Finding:
        found = sorted(found, key=lambda item: not _library(item))
        first, script, loop = found[0], found[0].script, found[0].loop
        words = list(dict.fromkeys(_library(item) or _sample_loop(item) for item in found))
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


def _library(found: TrainingCall) -> str:
    """What runs, if the call is one of a library of metrics; else ""."""
    return say("{call} runs on the CPU", call=found.call.name) if is_metric(found.call) else ""


def _sample_loop(found: TrainingCall) -> str:
    """What a loop over samples does, if the call reads a tensor of the device in one; else ""."""
    samples = samples_around(found.script, found.loop, found.event)
    if samples is None:
        return ""
    word = read_word(found.event, found.loop, DeviceTensors(found.loop))
    return (
        say("a Python loop over {samples} reads the GPU sample by sample ({word})", samples=samples, word=word)
        if word
        else ""
    )
