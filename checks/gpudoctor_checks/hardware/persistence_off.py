"""GPU012 persistence-off."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.gpu import answering, name_gpus
from gpudoctor_checks.hardware.card_findings import on_cards


class PersistenceOff(Check):
    """Persistence mode is off on a server card, so the driver unloads the card's state between jobs.

    What it finds:
        A data-centre GPU whose persistence mode is off (nvidia-persistenced turns it on).
    Why it hurts:
        If no program has the GPU open, the driver shuts it down. The next start of CUDA waits one to several
        seconds per GPU. Settings such as power limits and error counters are lost.
    How it knows:
        NVML's persistence mode; the card's name shows whether it is a server or a desktop card.
    False alarms:
        Desktop and laptop cards are not reported: their display keeps the driver loaded. Virtual GPUs are not
        reported either.
    Remedies:
        Start nvidia-persistenced.
    References:
        - https://docs.nvidia.com/deploy/driver-persistence/index.html
        - https://github.com/NVIDIA/DCGM (software tests of dcgmi diag)
    """

    code = "GPU012"
    reads = frozenset({Reads.ENVIRONMENT})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        modes = answering(patient.gpus, lambda gpu: gpu.persistence)
        off = [gpu for gpu, on in modes if not on and gpu.server_card and gpu.display_active is not True]
        if off:
            message = say(
                "Persistence mode is off on {subject} of {gpus}.", subject=name_gpus(off), gpus=len(patient.gpus)
            )
            command = "nvidia-smi -i {} --query-gpu=persistence_mode --format=csv"
            yield on_cards(self, message, [(gpu, False) for gpu in off], "persistence_mode", "", command)
