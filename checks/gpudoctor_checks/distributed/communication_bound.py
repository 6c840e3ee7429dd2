"""DIST002 communication-bound."""

from collections.abc import Iterator

from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.recordings.judged import demanded, duration, level, percent
from gpudoctor.model.reading.recordings.pricing import confirmed
from gpudoctor.model.reading.recordings.ranks import straggler
from gpudoctor.model.unavailable import Unavailable


class CommunicationBound(Check):
    """Ranks wait for their communication.

    What it finds:
        Collective operations that no computation hides, for 10 % of the step or more.
    Why it hurts:
        Devices that wait for gradients or parameters of others do nothing else.
    How it knows:
        From a recording: the device's clock for collectives where there is one, else the host's time in
        explicit collectives. Gradients that are reduced during the backward pass are hidden and not counted.
    False alarms:
        Waiting for a straggler looks like communication: where one rank is late, that is told and this is
        silent. On the CPU (gloo) the reduction cannot be told from the backward pass.
    Remedies:
        Bigger buckets, accumulation without synchronisation, overlap, a faster network.
    References:
        - https://github.com/pytorch/kineto/tree/main/tb_plugin
        - https://pytorch.org/docs/stable/notes/ddp.html
    """

    code = Code("DIST002")
    name = "communication-bound"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="share_noted",
            default=0.10,
            unit="1",
            source="torch_tb_profiler 10 %",
            meaning="Exposed communication of this share of a step is a note.",
        ),
        Threshold(
            name="share_warned",
            default=0.30,
            unit="1",
            source="XProf 30 %",
            meaning="Exposed communication of this share of a step is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        if len(run.states) < 2:
            raise Unavailable("the recording has one rank")
        if not any(state.known("device_collective") for state in run.states):
            raise Unavailable("the recording has no device clock for collectives")
        share = run.share("device_collective")
        severity = level(share, self.limit("share_noted"), self.limit("share_warned"))
        if severity is None or straggler(run.recording) is not None:
            return
        yield confirmed(
            self,
            (),
            f"Collectives that nothing hides take {percent(share)} of the step, "
            f"{duration(run.per_step('device_collective'))} a step on {len(run.states)} ranks.",
            share=share,
            device=True,
            spans=(),
            severity=severity,
            run=run,
            name="exposed_communication_share",
        )
