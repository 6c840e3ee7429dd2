"""GPU008 recovery-needed."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.job_devices import CardsDetail, demoted, each_card, left_out
from gpudoctor.model.signs.gpu import Gpu, GpuSurvey, LostGpu, answering, list_gpus, name_gpus

_ACTIONS = {
    1: ("reset", say("a reset of the GPU")),
    2: ("reboot", say("a reboot of the node")),
    3: ("drain", say("peer-to-peer traffic to be drained")),
    4: ("reset", say("the GPU to be drained and reset")),
    5: ("imex", say("the IMEX domain to be recovered")),
    6: ("bus-reset", say("a reset of the bus")),
    7: ("reboot", say("a reboot of the whole system")),
}
_DRAIN = 3
_LOST = {
    "lost": ("reboot", say("is lost: it does not answer on the bus")),
    "reset required": ("reset", say("reports only that it must be reset")),
    "unknown": ("reset", say("does not answer")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryNeededDetail(CardsDetail):
    """What the rule reads."""

    action: str
    """`reset`, `reboot`, `bus-reset`, `imex`, ..."""


class RecoveryNeeded(Check):
    """A GPU is lost, or its driver requires a reset or a reboot before further use.

    What it finds:
        GPUs that the driver counts but that do not answer; a recovery action other than "none".
    Why it hurts:
        The job dies when it reaches this GPU, on all ranks. The next jobs on the node die too, while the
        scheduler keeps assigning it.
    How it knows:
        NVML's recovery action (drivers from r570 on) and its error codes "GPU is lost" and "reset required".
    False alarms:
        Not known: the driver itself reports the state. GPUs that are granted to another job (no permission) are
        not reported; one that CUDA_VISIBLE_DEVICES excludes is a note.
    Remedies:
        Do what the driver requires; until then use the other GPUs of the machine.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/ (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)
        - https://github.com/NVIDIA/nvidia-resiliency-ext (GPU health check)
        - https://github.com/NVIDIA/DCGM (recovery state)
    """

    code = Code("GPU008")
    name = "recovery-needed"
    reads = frozenset({Reads.ENVIRONMENT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        survey = patient.gpu_survey
        lost = [gpu for gpu in survey.lost if gpu.cause in _LOST]
        for cause in _LOST:
            group = [gpu for gpu in lost if gpu.cause == cause and not left_out(patient, [gpu])]
            aside = [gpu for gpu in lost if gpu.cause == cause and gpu not in group]
            if group:
                yield self._gone(group, cause, survey)
            if aside:
                yield from demoted([self._gone(aside, cause, survey)])
        if not survey.gpus:
            if not lost:
                raise Unavailable(survey.absence)
            return
        try:
            asked = list(answering(survey.gpus, lambda gpu: gpu.recovery_action))
        except Unavailable:
            if not lost:
                raise
            return
        for action in sorted({value for _, value in asked if value}):
            cards = [gpu for gpu, value in asked if value == action]
            used = [gpu for gpu in cards if not left_out(patient, [gpu])]
            if used:
                yield self._asked(used, action)
            if len(used) < len(cards):
                yield from demoted([self._asked([gpu for gpu in cards if gpu not in used], action)])

    def _gone(self, group: list[LostGpu], cause: str, survey: GpuSurvey) -> Finding:
        action, words = _LOST[cause]
        subject = name_gpus(group)
        return self.finding(
            say(
                "{subject} of {gpus} {words} ({error}).",
                subject=subject,
                gpus=len(survey.gpus) + len(survey.lost),
                words=words,
                error=group[0].error,
            ),
            evidence=each_card("error", [(gpu, gpu.error) for gpu in group], "", "nvidia-smi -i {}"),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks=say("a job that uses it dies")),
            subject=subject,
            detail=RecoveryNeededDetail(gpus=list_gpus(group), action=action),
        )

    def _asked(self, group: list[Gpu], action: int) -> Finding:
        kind, words = _ACTIONS.get(action, ("reset", say("recovery action {action}", action=action)))
        mild = action == _DRAIN
        subject = name_gpus(group)
        return self.finding(
            say(
                "The driver requires {words} ({subject}, recovery action {action}).",
                words=words,
                subject=subject,
                action=action,
            ),
            evidence=each_card(
                "recovery_action",
                [(gpu, action) for gpu in group],
                "",
                'nvidia-smi -q -i {} | grep -i "recovery action"',
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.WARNING if mild else Severity.ERROR,
            cost=None if mild else Cost(breaks=say("a job that uses it may die or give wrong results")),
            subject=subject,
            detail=RecoveryNeededDetail(gpus=list_gpus(group), action=kind),
        )
