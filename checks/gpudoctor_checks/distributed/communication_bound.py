"""DIST002 communication-bound."""

from collections.abc import Iterator
from statistics import fmean

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, demanded
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Threshold, Whose
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count, duration, percent


class CommunicationBound(Check):
    """Ranks wait for their communication.

    What it finds:
        Exposed (non-overlapped) collective operations for 10 % of the step or more.
    Why it hurts:
        Devices are idle while they wait for gradients or parameters of other ranks.
    How it knows:
        From a recording: the device's times of collectives if there are any, else the host's time in explicit
        collectives. Reductions that overlap with the backward pass are not counted. In each step the rank that
        waits least is the reference. Any longer wait of the others is a wait for that rank.
    False alarms:
        Waiting for a straggler resembles communication: if one rank is late, DIST001 reports it and this check
        is silent. On the CPU (gloo) the reduction cannot be
        separated from the backward pass.
    Remedies:
        Use bigger buckets, accumulation without synchronisation, overlap, or a faster network.
    References:
        - https://github.com/pytorch/kineto/tree/main/tb_plugin
        - https://pytorch.org/docs/stable/notes/ddp.html
    """

    code = "DIST002"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        *Threshold.note_and_warning(
            "Exposed communication of this share of a step is",
            noted=0.10,
            warned=0.30,
            source="torch_tb_profiler 10 %",
            source_warned="XProf 30 %",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        if len(run.states) < 2:
            raise Unavailable(say("the recording has one rank"))
        if not any(state.known("device_collective") for state in run.states):
            raise Unavailable(say("the recording has no device times of collectives"))
        seconds, share = _of_all(run) or (run.per_step("device_collective"), run.share("device_collective"))
        severity = self.level(share)
        if severity is None or of_run.straggler(run.recording) is not None:
            return
        yield of_run.seen_in_run(run, share, whose=Whose.DEVICE).finding(
            self,
            say(
                "Exposed (non-overlapped) collectives take {share} of the step, {seconds} a step on {ranks}.",
                share=percent(share),
                seconds=duration(seconds),
                ranks=count(len(run.states), "rank"),
            ),
            name="exposed_communication_share",
            severity=severity,
        )


def _of_all(run: Run) -> tuple[float, float] | None:
    """Seconds a step for which even the rank waits that is last to come, and their share of the devices' time:
    what others wait beyond that is its lateness. None where the ranks have no timed steps in common.
    """
    table = of_run.aligned(run.recording)
    timed = table.on_device() if table is not None else None
    if timed is None or not timed.steps:
        return None
    seconds = fmean(map(min, zip(*timed.column("device_collective"), strict=True)))
    whole = sum(fmean(mine) for name in of_run.STEP_ON_DEVICE for mine in timed.column(name)) / len(timed.ranks)
    return (seconds, min(1.0, seconds / whole)) if whole > 0 else None
