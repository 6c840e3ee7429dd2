"""GPU008 recovery-needed."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.job_devices import demoted, left_out
from gpudoctor.model.signs.gpu import Gpu, LostGpu, answering
from gpudoctor_checks.hardware.card_findings import on_cards

_ACTIONS = {
    1: ("reset", say("a reset of the GPU")),
    2: ("reboot", say("a reboot of the node")),
    3: ("drain", say("peer-to-peer traffic to be drained")),
    4: ("reset", say("the GPU to be drained and reset")),
}
_DRAIN = 3
_LOST = {
    "lost": ("reboot", say("is lost: it does not answer on the bus")),
    "reset required": ("reset", say("reports only that it must be reset")),
    "unknown": ("reset", say("does not answer")),
}


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
    """

    code = "GPU008"
    reads = frozenset({Reads.ENVIRONMENT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        survey = patient.gpu_survey
        lost = [gpu for gpu in survey.lost if gpu.cause in _LOST]
        for gpu in lost:
            yield from self._judged(patient, gpu, self._gone(gpu))
        if not (survey.gpus or lost):
            raise Unavailable(survey.absence)
        try:
            for card, action in answering(survey.gpus, lambda one: one.recovery_action):
                if action:
                    yield from self._judged(patient, card, self._asked(card, action))
        except Unavailable:
            if not lost:
                raise

    def _judged(self, patient: Patient, gpu: Gpu | LostGpu, found: Finding) -> Iterator[Finding]:
        """The finding on a card that the job uses, a note on one that it leaves out."""
        yield from demoted([found]) if left_out(patient, [gpu]) else [found]

    def _gone(self, gpu: LostGpu) -> Finding:
        action, words = _LOST[gpu.cause]
        message = say("{gpu} {words} ({error}).", gpu=gpu.label, words=words, error=gpu.error)
        breaks = say("a job that uses it dies")
        return on_cards(
            self, message, [(gpu, gpu.error)], "error", "", "nvidia-smi -i {}", breaks=breaks, action=action
        )

    def _asked(self, gpu: Gpu, action: int) -> Finding:
        kind, words = _ACTIONS.get(action, ("reset", say("recovery action {action}", action=action)))
        drain = action == _DRAIN
        return on_cards(
            self,
            say("The driver requires {words} ({gpu}).", words=words, gpu=gpu.label),
            [(gpu, action)],
            "recovery_action",
            "",
            'nvidia-smi -q -i {} | grep -i "recovery action"',
            severity=Severity.WARNING if drain else Severity.ERROR,
            breaks="" if drain else say("a job that uses it may die or give wrong results"),
            action=kind,
        )
