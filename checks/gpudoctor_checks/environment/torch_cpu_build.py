"""ENV002."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.cuda import dotted
from gpudoctor.model.unavailable import known
from gpudoctor.text import count
from gpudoctor_checks.environment.torch_reading import of_torch

_OLDEST = (5, 0)
"""The lowest compute capability of any CUDA build: PyTorch RELEASE.md, CUDA support matrix."""


class TorchCpuBuild(Check):
    """The installed torch was built without CUDA, on a machine with an NVIDIA GPU.

    What it finds:
        A torch, in the environment of the training, whose version file names neither CUDA nor ROCm. The driver
        shows at least one GPU that a CUDA build of torch could use.
    Why it hurts:
        `torch.cuda.is_available()` is False. A script with the usual fallback trains on the CPU, ten to a
        hundred times slower, without a message. One without it dies with "Torch not compiled with CUDA
        enabled". It happens when pip resolves against the CPU index, or conda picks a `cpu` variant. It also
        happens when another package pulls torch in.
    How it knows:
        It reads `torch/version.py` in the environment's folder (it does not import torch) and queries the driver
        for its GPUs.
    False alarms:
        A laptop or a CI machine without a GPU needs only the CPU build: the check is skipped there. Cards too
        old for any CUDA build of torch do not count. A machine whose GPU is kept for something else on purpose:
        silence it there.
    Remedies:
        Install the newest CUDA build of the same torch release that this driver and these cards run. Install
        its companions too (torchvision, torchaudio).
    References:
        - https://pytorch.org/get-started/locally/
        - https://github.com/XPixelGroup/HAT/issues/85
    """

    code = "ENV002"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = [gpu for gpu in patient.gpus if (known(gpu.compute_capability) or _OLDEST) >= _OLDEST]
        torch = patient.torch
        if torch.cuda is not None or torch.hip is not None or not gpus:
            return
        capabilities = {dotted(found) for gpu in gpus if (found := known(gpu.compute_capability)) is not None}
        yield self.finding(
            say(
                "torch {version} is built without CUDA, and this machine has {count} ({names}): "
                "the training cannot use them.",
                version=torch.version,
                count=say("a GPU") if len(gpus) == 1 else count(len(gpus), "GPU"),
                names=", ".join(dict.fromkeys(gpu.name for gpu in gpus)),
            ),
            evidence=(
                of_torch(patient, "torch_cuda", "none", "torch.__version__, torch.version.cuda"),
                Measurement("gpus", len(gpus), "{GPU}", reproduce="nvidia-smi -L"),
            ),
            breaks=say("the training cannot use the GPU"),
            subject="torch",
            detail=Facts(
                torch=torch.version,
                driver=known(patient.gpu_survey.driver_version) or "",
                capabilities=" ".join(sorted(capabilities)),
            ),
        )
