"""SYNC002 allocator-flush-in-loop."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, ran_on_cpu
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, often
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.text import duration
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import EVENTS

_FLUSHES = frozenset(
    {"torch.cuda.empty_cache", "torch.cuda.memory.empty_cache", "torch.accelerator.empty_cache", "gc.collect",
     "accelerate.utils.release_memory", "accelerate.Accelerator.free_memory"}
)  # fmt: skip


class AllocatorFlushInLoop(RunCheck):
    """The training loop repeatedly frees its cached GPU memory, or collects garbage.

    What it finds:
        `torch.cuda.empty_cache()` or `gc.collect()` on every pass of a training loop, or every few passes.
    Why it hurts:
        `empty_cache` waits for the GPU and returns cached blocks to the driver. The next step requests them
        again with `cudaMalloc`, which waits too. `gc.collect` walks every Python object: 50 to 300 ms in a
        process that has imported torch and a model library. Neither gives the step more memory: the next
        allocation reuses the cache.
    How it knows:
        From the source: the call is in the body of a training loop, or in a function that it calls. The
        conditions around it show how often it runs. Each step is a warning, a short period is a note.
    False alarms:
        Calls in an out-of-memory handler, after an epoch, between phases, or at a long period are not reported.
    Remedies:
        Remove it. Against fragmentation, use expandable segments. If memory grows, find what keeps it.
    References:
        - https://pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
    """

    code = "SYNC002"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "period_warned",
            10,
            "{steps}",
            "a flush costs about one to ten short steps",
            "A flush at least this often is a warning.",
        ),
        Threshold(
            "period_noted",
            100,
            "{steps}",
            "the optimisation summary prices every 100 batches",
            "A flush at least this often is noted; rarer ones are silent.",
        ),
        EVENTS,
        *Threshold.note_and_warning(
            "Flushes and collections that take this share of a recorded run are", noted=0.01, warned=0.05
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        seen = of_run.price(
            patient, run, owners=(of_run.LineOwner.COLLECTING,), wanted=lambda site: of_run.collects(site.what)
        )
        severity = seen.level(self)
        calls = sum(site.calls for site in seen.sites)
        if severity is None or (seen.sites and calls < self.limit("events")):
            return
        what = seen.what or say("Flushing memory")
        yield seen.finding(
            self,
            say(
                "{call} takes {cost}: {calls:.2g} calls a step, {each} each{where}.",
                call=what,
                cost=seen.words,
                calls=seen.calls,
                each=duration(seen.seconds),
                where=seen.where,
            ),
            name="flush_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(call=what.rpartition(" ")[2]),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        on_cpu = ran_on_cpu(patient)  # there is no cache there; a collection costs all the same
        for calls in calls_in_training(patient.source, self._flushes, distinct=True):
            yield from (self._from_source(item) for item in calls if not on_cpu or item.call.method == "collect")

    def _flushes(self, found: TrainingCall) -> bool:
        # What runs without gradients is a phase of its own beside the step: generation, scoring, evaluation.
        within = found.period <= self.limit("period_noted") and not found.event.no_grad
        return within and found.call.name in _FLUSHES

    def _from_source(self, found: TrainingCall) -> Finding:
        span, name = found.event.span, found.call.name
        effect = say("walks every Python object") if name.endswith(".collect") else say("empties the allocator's cache")
        return self.finding(
            say(
                "{call}() runs {often} (loop at line {line}) and {effect}.",
                call=name,
                often=often(found.period),
                line=found.loop.span.line,
                effect=effect,
            ),
            evidence=(span, found.loop.span),
            severity=Severity.WARNING if found.period <= self.limit("period_warned") else Severity.NOTE,
            detail=Facts(call=name),
        )
