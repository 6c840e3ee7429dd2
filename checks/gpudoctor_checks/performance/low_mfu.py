"""PERF012 low-mfu."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent


class LowMfu(Check):
    """The card computes at a small part of its peak.

    What it finds:
        A model FLOPs utilisation under 20 %: the model's own arithmetic per second over the card's peak in
        bf16.
    Why it hurts:
        It shows how much a perfect program would gain. If other findings name a cause, that is where the time
        goes.
    How it knows:
        From a recording: the FLOPs of a step if counted, and the steps per second. The card's data sheet gives
        its peak. It reports only if no larger cause is measured. Waiting, logging, saving and evaluating
        together use under a tenth of the time.
    False alarms:
        Models of many small or memory-bound operations (embeddings, depthwise convolutions, short sequences)
        have a low utilisation by nature. This is a note.
    Remedies:
        Use larger batches, 16-bit types, fused attention, and torch.compile.
    References:
        - https://arxiv.org/abs/2204.02311
    """

    code = "PERF012"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "mfu",
            0.20,
            "1",
            "convention: gpudoctor's own choice, no published figure is known",
            "A utilisation below this is a note.",
        ),
        Threshold(
            "elsewhere",
            0.10,
            "1",
            "a tenth of the time is a separate cause",
            "If more of the time goes elsewhere, that is the cause.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        numbers = of_run.run_numbers(run.recording)
        peak = of_run.peak_of_ranks(run.recording)
        done = numbers.throughput.flops_per_second if numbers.throughput is not None else None
        if peak is None or done is None:
            raise Unavailable(say("the model's FLOPs or the card's peak are not known"))
        mfu = done / peak
        elsewhere = 1.0 - run.share("forward", "backward", "optimizer", "collective")
        if mfu >= self.limit("mfu") or elsewhere > self.limit("elsewhere"):
            return
        yield self.finding(
            say(
                "The model computes {teraflops:.3g} TFLOP/s, {mfu} of the cards' bf16 peak, and no "
                "other part of the step explains it.",
                teraflops=done / 1e12,
                mfu=percent(mfu),
            ),
            evidence=(run.measured("mfu", mfu), run.measured("model_flops_per_second", done, "FLOP/s")),
        )
