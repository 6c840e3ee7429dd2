"""GPU008 recovery-needed."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.job_devices import CardsDetail, demoted, left_out
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import Gpu, GpuSurvey, LostGpu, answering, name_gpus
from gpudoctor_checks.hardware.card_findings import on_cards

T = TypeVar("T", Gpu, LostGpu)
V = TypeVar("V", int, str)

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


@frozen
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
        lost = [(gpu, gpu.error) for gpu in survey.lost if gpu.cause in _LOST]
        for cause in _LOST:
            yield from self._groups(
                patient, [row for row in lost if row[0].cause == cause], lambda rows: self._gone(rows, survey)
            )
        if not survey.gpus and not lost:
            raise Unavailable(survey.absence)
        try:
            asked = list(answering(survey.gpus, lambda gpu: gpu.recovery_action))
        except Unavailable:
            if not lost:
                raise
            return
        for action in sorted({value for _, value in asked if value}):
            yield from self._groups(patient, [row for row in asked if row[1] == action], self._asked)

    def _groups(
        self, patient: Patient, rows: list[tuple[T, V]], found: Callable[[list[tuple[T, V]]], Finding]
    ) -> Iterator[Finding]:
        """A finding on the cards that the job uses, and a note on those that it leaves out."""
        used = [row for row in rows if not left_out(patient, [row[0]])]
        aside = [row for row in rows if row not in used]
        if used:
            yield found(used)
        if aside:
            yield from demoted([found(aside)])

    def _gone(self, rows: list[tuple[LostGpu, str]], survey: GpuSurvey) -> Finding:
        action, words = _LOST[rows[0][0].cause]
        message = say(
            "{subject} of {gpus} {words} ({error}).",
            subject=name_gpus(gpu for gpu, _ in rows),
            gpus=len(survey.gpus) + len(survey.lost),
            words=words,
            error=rows[0][1],
        )
        breaks = say("a job that uses it dies")
        detail = RecoveryNeededDetail
        return on_cards(
            self, message, rows, "error", "", "nvidia-smi -i {}", breaks=breaks, detail=detail, action=action
        )

    def _asked(self, rows: list[tuple[Gpu, int]]) -> Finding:
        action = rows[0][1]
        kind, words = _ACTIONS.get(action, ("reset", say("recovery action {action}", action=action)))
        return on_cards(
            self,
            say(
                "The driver requires {words} ({subject}, recovery action {action}).",
                words=words,
                subject=name_gpus(gpu for gpu, _ in rows),
                action=action,
            ),
            rows,
            "recovery_action",
            "",
            'nvidia-smi -q -i {} | grep -i "recovery action"',
            severity=Severity.WARNING if action == _DRAIN else Severity.ERROR,
            breaks="" if action == _DRAIN else say("a job that uses it may die or give wrong results"),
            detail=RecoveryNeededDetail,
            action=kind,
        )
