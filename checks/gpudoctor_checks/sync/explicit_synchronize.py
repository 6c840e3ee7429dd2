"""SYNC003 explicit-synchronize."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, measures, often
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.source import Call
from gpudoctor.text import count
from gpudoctor_checks.declared import shown_call
from gpudoctor_checks.run_check import RunCheck

_DEVICE = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.mps.synchronize"})
_STREAM = "torch.cuda.current_stream("


class ExplicitSynchronize(RunCheck):
    """The training loop stops and waits for the GPU with an explicit synchronize, step after step.

    What it finds:
        `torch.cuda.synchronize()` (and its variants in `torch.accelerator`, or
        `current_stream().synchronize()`) on each pass of a training loop, or every few passes.
    Why it hurts:
        PyTorch queues CUDA work and runs ahead, so that the next step's kernels are ready when this step's end.
        A synchronize drains that queue, and the GPU idles until the host has launched new work.
    How it knows:
        From the source: the call is in the body of a training loop, or in a function that it calls. The
        conditions around it show how often it runs. Only a run shows the cost, so one or two per step are a
        note, three or more a warning.
    False alarms:
        A step that ends in a read of the loss waits there anyway. Loops of at most 50 steps, and files and
        functions named benchmark or profile, are not reported. Neither are calls behind a switch that is off,
        in evaluation or at a long period.
    Remedies:
        Remove it; nothing in PyTorch needs it for correct results. To time steps, record CUDA events and read
        them some steps later.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    on_gpu = True
    code = "SYNC003"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "period",
            10,
            "{steps}",
            "S1; a drained queue costs about the launches of one short step, and a tenth of that is under 5 %",
            "A synchronize more often than once in this many steps is a finding.",
        ),
        Threshold(
            "waits_per_step",
            3,
            "{waits}",
            "SYNC001's limit for reads, which wait in the same way",
            "This many synchronizes per step are a warning.",
        ),
        *Threshold.note_and_warning(
            "Explicit waits that take this share of a recorded run are",
            noted=0.05,
            warned=0.1,
            source="SYNC001's threshold, whose waits are of the same kind",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        seen = of_run.price(patient, run, wanted=lambda site: site.what.endswith("synchronize"))
        severity = seen.level(self)
        if severity is not None:
            yield seen.finding(
                self,
                say(
                    "{call} waits for the device {calls:.2g} times a step, {cost}{where}.",
                    call=seen.what,
                    calls=seen.calls,
                    cost=seen.words,
                    where=seen.where,
                ),
                name="synchronize_share",
                severity=severity,
                suspected=suspected,
                detail=Facts(call=seen.what.partition(" ")[0]),
            )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        for waits in calls_in_training(
            patient.source, lambda item: _synchronizes(item.call), every=self.limit("period"), skip=measures
        ):
            yield self._from_source(waits)

    def _from_source(self, waits: list[TrainingCall]) -> Finding:
        total = sum((2.0 if wait.event.inner else 1.0) / wait.period for wait in waits)
        first, loop = waits[0], waits[0].loop
        spans = list(dict.fromkeys(wait.event.span for wait in waits))
        more = say(" and at {more_places}", more_places=count(len(spans) - 1, "more place")) if len(spans) > 1 else ""
        place = f"{first.event.span.path.rpartition('/')[2]}:{first.event.span.line}"
        return self.finding(
            say(
                "{shown}() makes the host wait for the GPU {often} ({place}){more}.",
                shown=shown_call(first.call),
                often=often(first.period),
                place=place,
                more=more,
            ),
            evidence=tuple(spans[:8]),
            severity=Severity.WARNING if total >= self.limit("waits_per_step") else Severity.NOTE,
            subject=f"{first.script.path}:{loop.span.line}",
            detail=Facts(call=shown_call(first.call)),
        )


def _synchronizes(call: Call) -> bool:
    if "bench" in call.function.lower():
        return False
    return call.name in _DEVICE or (call.method == "synchronize" and call.receiver.startswith(_STREAM))
