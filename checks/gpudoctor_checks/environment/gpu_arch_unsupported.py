"""ENV004."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.job_log.cuda_words import call_failed, check_failed
from gpudoctor.lang import say
from gpudoctor.model import (
    Bearing,
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    LogMessage,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    Unavailable,
)
from gpudoctor.model.cuda import architecture, dotted, is_jetson, runs_on
from gpudoctor.model.signs.gpu import Gpu, answering
from gpudoctor.model.unavailable import Absent
from gpudoctor.text import count


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuArchUnsupportedDetail(Detail):
    """What the rule reads."""

    torch: str
    capabilities: str
    """Of the card."""
    driver: str


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
        It reads the architecture list in libtorch_python.so, as `torch.cuda.get_arch_list()` returns it,
        without importing torch. The driver gives the cards' compute capability. From a job's log: the messages
        that name it, in the exception or line that came first.
    False alarms:
        A build from source has its own list, which gpudoctor reads in the same way. A card that the job does
        not use (an old display card) is only a warning if another card works. Jetson boards are not reported:
        their binaries follow their own rules.
    Remedies:
        Install a torch build that has the architecture and that this driver runs; the finding has the line.
    References:
        - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility
        - https://github.com/pytorch/pytorch/blob/main/RELEASE.md#pytorch-cuda-support-matrix
        - https://github.com/pytorch/pytorch/issues/167244
    """

    code = Code("ENV004")
    name = "gpu-arch-unsupported"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages = (
        LogMessage(
            kind="no-kernel",
            cue=(
                "hiperrornobinaryforgpu",
                "device kernel image is invalid",
                "no kernel image is available",
                "cudaerrornokernelimagefordevice",
                "invalid device function",
                "cuda_error_no_binary_for_gpu",
            ),
            pattern="CUDA_ERROR_NO_BINARY_FOR_GPU|"
            "hipErrorNoBinaryForGpu|HIP error: invalid device function|"
            r"(?<!Triton Error \[CUDA\]: )device kernel image "
            "is invalid|"
            "no kernel image is available for execution on the device|"
            "cudaErrorNoKernelImageForDevice|CUDA error: invalid device function",
            text="The installed binary has no code for this GPU's architecture.",
            everywhere=True,
            source="https://github.com/pytorch/pytorch/issues/167244",
        ),
        LogMessage(
            kind="no-kernel",
            cue=("rocblas error: cannot read", "unable to find code object for all current devices"),
            pattern=r"rocBLAS error: Cannot read \S{1,300}TensileLibrary|hipErrorNoBinaryForGpu: "
            "Unable to find code object for all current devices",
            text="The ROCm libraries have no code for this GPU's architecture.",
            everywhere=True,
            source="rocBLAS library/src/tensile_host.cpp; HIP",
        ),
        LogMessage(
            kind="flash-attention",
            cue=("for head dim > ", "only support"),
            pattern=r"FlashAttention backward for head dim > \d+ requires (?P<cards>A100)|"
            r"(?:[Ff]lash\w{0,20}\W?[Aa]ttention|FLASH\w{0,20})"
            r".{0,60}only supports? (?P<needed>Ampere|Hopper|"
            "Turing)|only supports (?:Ampere|Hopper) GPUs or newer",
            text="FlashAttention does not support this GPU's architecture[: it needs {needed} or newer].",
        ),
        LogMessage(
            kind="too-old-gpu",
            cue=("too old to be supported", "minimum capability: ", "requires device with capability"),
            pattern=r"is not supported for the current GPU\. Minimum capability: (?P<needs>\d+)|"
            "Found (?P<gpu>.{3,60}?) which is too old to be supported|[Rr]equires device with "
            "capability",
            text="A compiled kernel needs a newer GPU architecture than this GPU has.",
        ),
        LogMessage(
            kind="warned",
            cue="not compatible with the current pytorch",
            pattern=r"with CUDA capability (?P<capability>sm_\d+) is not compatible with the current PyTorch",
            text="This torch has no code for the GPU's architecture[ {capability}].",
            bearing=Bearing.HINT,
            everywhere=True,
            explains="no kernel image|CUDA error|CUBLAS|device function|cudnn|CUDNN|NCCL",
        ),
        LogMessage(
            kind="no-kernel",
            cue=("success (8 vs. 0)", "success (48 vs. 0)", "success (98 vs. 0)", "success (209 vs. 0)"),
            pattern=check_failed("8|48|98|209"),
            text="The installed binary has no code for this GPU's architecture.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="Caffe, MXNet, TensorFlow: glog's CHECK; CUDA driver_types.h, HIP",
        ),
        LogMessage(
            kind="no-kernel",
            cue=("no kernel image is available", "device kernel image is invalid", "invalid device function"),
            pattern=call_failed(r"no kernel image is available|device kernel image is invalid|invalid device function"),
            text="The installed binary has no code for this GPU's architecture.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            closing=True,
            source="CUDA driver_types.h, HIP; how C++ programs print it",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        cards = list(answering(patient.gpus, lambda gpu: gpu.compute_capability))
        torch = patient.torch
        if torch.cuda is None:
            return
        built = torch.arch_list
        if isinstance(built, Absent):
            raise Unavailable(say("torch's architectures: {reason}", reason=built.reason))
        if not any(architecture(name) for name in built):
            raise Unavailable(say("torch's list of architectures is empty"))
        cards = [(gpu, card) for gpu, card in cards if not is_jetson(gpu.name)]
        missing = [(gpu, card) for gpu, card in cards if runs_on(built, card) is None]
        others = len(cards) > len(missing)
        for card in dict.fromkeys(card for _, card in missing):
            yield self._missing([gpu for gpu, own in missing if own == card], card, built, patient, others)

    def _missing(
        self, gpus: list[Gpu], card: tuple[int, int], built: tuple[str, ...], patient: Patient, others: bool
    ) -> Finding:
        torch = patient.torch
        driver = patient.gpu_survey.driver_version
        label = gpus[0].label if len(gpus) == 1 else count(len(gpus), "GPU")
        have = ", ".join(built)
        python = patient.packages.executable
        return self.finding(
            say(
                "{label} ({gpu}) has compute capability {capability}, and torch {version} has code for {have} only.",
                label=label,
                gpu=gpus[0].name,
                capability=dotted(card),
                version=torch.version,
                have=have,
            ),
            evidence=(
                Measurement(
                    name="compute_capability",
                    value=dotted(card),
                    unit="",
                    reproduce="nvidia-smi --query-gpu=name,compute_cap --format=csv",
                ),
                Measurement(
                    name="torch_architectures",
                    value=have,
                    unit="",
                    provenance=Provenance.DECLARED,
                    reproduce=f"{python} -c 'import torch; print(torch.cuda.get_arch_list())'",
                ),
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.WARNING if others else None,
            cost=Cost() if others else Cost(breaks=say("no kernel of torch runs on this GPU")),
            subject=gpus[0].label,
            detail=GpuArchUnsupportedDetail(
                torch=torch.version, capabilities=dotted(card), driver="" if isinstance(driver, Absent) else driver
            ),
        )
