"""PERF011 launch-bound."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_LAUNCHING = ("forward", "backward", "optimizer")
"""Phases in which the host does nothing but launch."""


class LaunchBound(Check):
    """The GPU waits for the host to launch its kernels.

    What it finds:
        Steps whose compute stream has work for less than 70 % of the time. The host only runs forward, backward
        and the optimizer.
    Why it hurts:
        A kernel that runs for 5 µs needs 5 to 10 µs of the host to launch. The card is idle for half of the
        time, and a faster one would change nothing.
    How it knows:
        From a recording: the share of the step in which the stream had work (device events), and the host's
        phases. Other checks report other waits of the host.
    False alarms:
        - A first step, a small test run.
        - Steps that replay a graph, which are one launch each.
        - A host that waits for data, reads values or logs is a different finding and is subtracted.
    Remedies:
        Use fewer and bigger kernels: torch.compile, CUDA graphs, a larger batch, fused optimizers.
    References:
        - https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/
    """

    code = "PERF011"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        *Threshold.note_and_warning(
            "A device that is idle for this share of the step while the host launches is",
            noted=0.15,
            warned=0.30,
            source="XProf: launch 15 % is high",
            source_warned="GPU001: under 70 % busy",
            name="idle",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        state = run.lead
        idle = run.idle
        if idle is None:
            raise Unavailable(say("the recording has no device times"))
        if of_run.replayed(state.process):  # one launch a step: no fewer can be had
            return
        elsewhere = 1.0 - run.share(*_LAUNCHING)
        share = max(0.0, idle - elsewhere)
        severity = self.level(share, "idle_noted", "idle_warned")
        if severity is None:
            return
        where = of_run.model_place(state.process)
        yield of_run.seen_in_run(run, share, spots(patient, where)).finding(
            self,
            say(
                "The GPU is idle for {idle} of the step, and the host launches forward, backward "
                "and optimizer kernels for {share}.",
                idle=percent(idle),
                share=percent(share),
            ),
            name="launch_idle_share",
            severity=severity,
        )
