"""ENV004."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.cuda import dotted, is_jetson, runs_on
from gpudoctor.model.signs.gpu import answering
from gpudoctor.model.unavailable import Absent, Unavailable, known
from gpudoctor.text import count
from gpudoctor_checks.environment.torch_reading import of_torch

_QUERY = "nvidia-smi --query-gpu=name,compute_cap --format=csv"


class GpuArchUnsupported(Check):
    """The installed torch has no code for this card's compute capability.

    What it finds:
        A GPU for which torch has neither machine code nor PTX for the driver to compile. Machine code needs the
        same major version and no higher minor version. The card is newer than the wheel (sm_120 on a cu126
        build). Or the wheel dropped the card (Volta on a cu130 build).
    Why it hurts:
        The first kernel dies with "no kernel image is available for execution on the device". Often this is
        after minutes of loading data. `torch.cuda.is_available()` still returns True.
    How it knows:
        It reads the architecture list in libtorch_python.so, as `torch.cuda.get_arch_list()` returns it, without
        importing torch. The driver gives the cards' compute capability.
    False alarms:
        A build from source has its own list, which gpudoctor reads in the same way. A card that the job does
        not use (an old display card) is only a warning if another card works. Jetson boards are not reported:
        their binaries follow their own rules.
    Remedies:
        Install a torch build that has the architecture and that this driver runs; the finding has the line.
    References:
        - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility
        - https://github.com/pytorch/pytorch/blob/main/RELEASE.md#pytorch-cuda-support-matrix
    """

    code = "ENV004"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        cards = list(answering(patient.gpus, lambda gpu: gpu.compute_capability))
        torch = patient.torch
        if torch.cuda is None:
            return
        built = torch.arch_list
        if isinstance(built, Absent):
            raise Unavailable(say("torch's architectures: {reason}", reason=built.reason))
        cards = [(gpu, card) for gpu, card in cards if not is_jetson(gpu.name)]
        missing = [(gpu, card) for gpu, card in cards if runs_on(built, card) is None]
        others = len(cards) > len(missing)
        for card in dict.fromkeys(card for _, card in missing):
            gpus, have = [gpu for gpu, own in missing if own == card], ", ".join(built)
            yield self.finding(
                say(
                    "{label} ({gpu}) has compute capability {capability}, and torch {version} has code for {have} only.",  # noqa: E501
                    label=gpus[0].label if len(gpus) == 1 else count(len(gpus), "GPU"),
                    gpu=gpus[0].name,
                    capability=dotted(card),
                    version=torch.version,
                    have=have,
                ),
                evidence=(
                    Measurement("compute_capability", dotted(card), "", reproduce=_QUERY),
                    of_torch(patient, "torch_architectures", have, "torch.cuda.get_arch_list()"),
                ),
                severity=Severity.WARNING if others else None,
                breaks=None if others else say("no kernel of torch runs on this GPU"),
                subject=gpus[0].label,
                detail=Facts(
                    torch=torch.version,
                    capabilities=dotted(card),
                    driver=known(patient.gpu_survey.driver_version) or "",
                ),
            )
