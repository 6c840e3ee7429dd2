"""GPU001 low-utilization."""

from collections.abc import Iterator
from statistics import mean

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, watched
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Facts, Finding, Measurement, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import joined, percent

_IDLING = {
    "data_wait": say("waiting for data"), "sync": say("reading values"),
    "logging": say("logging"), "checkpoint": say("saving"), "evaluation": say("evaluating"),
    "profiler": say("profiling"), "collective": say("waiting for other ranks"),
    "compile": say("compiling"), "start": say("starting up"),
}  # fmt: skip
"""Phases of a watched host that leave a device idle."""


class LowUtilization(Check):
    """The GPUs are mostly idle.

    What it finds:
        SMs that are busy for less than 70 % of a recorded run's steady state. Before Hopper: a card with any
        kernel on it for less than that.
    Why it hurts:
        A card that is half idle costs as much as a busy one.
    How it knows:
        From a recording: GPM's share of busy SMs if the card has it, otherwise NVML's utilisation. Both are
        sampled each second after warm-up. Low utilisation is a symptom. The finding names the part of the step
        that explains it. That part's own finding has the remedy.
    False alarms:
        NVML counts a card as used while any kernel runs, even a small one. A high number proves nothing, so
        gpudoctor reports only low ones.
    Remedies:
        Apply the remedies of the named cause.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html
        - https://arxiv.org/abs/2402.18139
    """

    code = "GPU001"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        *Threshold.note_and_warning(
            "Cards that are busy for less of the time are",
            noted=of_run.BUSY,
            warned=0.30,
            source="SageMaker 70 %",
            source_warned="TraceML 30 %",
            name="busy",
        ),
        Threshold("explained", of_run.EXPLAINS, "1", "convention: a tenth of a step is a cause",
                  "A part of the step that takes this share explains idle cards."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            used = [
                (gpu.index, gpu.activity.mean)
                for gpu in of_run.job_gpus(window)
                if len(gpu.activity.known()) >= of_run.ENOUGH
            ]
            if not used:
                raise Unavailable(say("no {enough} readings of a GPU that the job uses", enough=of_run.ENOUGH))
            looks = window.samples if window.samples >= of_run.ENOUGH else 0
            parts = [(window.phases.get(phase, 0) / looks, words) for phase, words in _IDLING.items() if looks]
        else:
            run = demanded(patient)
            used = [(gpu.index, share) for gpu, share in of_run.cards_in_use(run)]
            if not used:
                raise Unavailable(say("the recording has no samples of a GPU"))
            parts = [(run.share(name), words) for name, words in of_run.CAUSES.items()]
        busy = mean(share for _, share in used)
        if busy >= self.limit("busy_noted"):
            return
        causes = [
            say("{words} ({share})", words=words, share=percent(share))
            for share, words in sorted(parts, reverse=True)
            if share >= self.limit("explained")
        ]
        if window is not None:
            why = say("no phase of the host explains it")
            why = say("the host is {causes}", causes=joined(causes[:2])) if causes else why
        else:
            why = say("no part of the step explains it")
            spent = concatenated(", ", causes[:2])
            why = say("the steps spend their time with {causes}", causes=spent) if causes else why
        shares = [("gpu_busy_share", busy), *((f"gpu{index}_busy_share", share) for index, share in used[:8])]
        severity = Severity.WARNING if busy < self.limit("busy_warned") and not causes else Severity.NOTE
        yield self.finding(
            say("The GPUs are busy for {busy} of the time; {why}.", busy=percent(busy), why=why),
            evidence=tuple(
                run.measured(name, share)
                if window is None
                else Measurement(name, round(share, 4), "1", reproduce="nvidia-smi dmon -s u")
                for name, share in shares
            ),
            severity=severity,
            detail=Facts(explained=bool(causes)),
        )
