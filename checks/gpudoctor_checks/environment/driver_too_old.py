"""ENV003."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.job_log.cuda_words import call_failed
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
from gpudoctor.model.cuda import dotted, is_jetson, numbers
from gpudoctor.model.unavailable import Absent
from gpudoctor_checks.environment.driver_floors import floor_of, toolkit_driver


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTooOldDetail(Detail):
    """What the rule reads."""

    torch: str
    cuda: str
    driver: str
    floor: str
    """Oldest driver that runs it; \"\" where nobody says."""
    toolkit_driver: str
    """The driver that came with that CUDA."""


class DriverTooOld(Check):
    """The NVIDIA driver is too old for the CUDA that torch was built with.

    What it finds:
        A driver below the floor of torch's CUDA major version: 450.80.02 for CUDA 11, 525.60.13 for 12,
        580.65.06 for 13.
    Why it hurts:
        The first CUDA call fails with "The NVIDIA driver on your system is too old". Or `is_available()`
        returns False with a warning that is easy to miss, and the training runs on the CPU. It happens with a
        new wheel on a node whose driver only an administrator can change.
    How it knows:
        It compares the driver's version with the floor of `torch.version.cuda`, read from torch's files, in a
        table from NVIDIA's documents. A driver newer than the table always passes: drivers run older CUDA. From
        a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        NVIDIA's forward-compatibility package lets data-centre cards run a newer CUDA: a compat `libcuda` on
        the loader path silences the check. Within one CUDA major version a driver may be older than the
        toolkit; that is not reported. Jetson boards have their own numbering and are not reported.
    Remedies:
        Ask the administrator for a newer driver, or install a torch build that this driver runs. On data-centre
        cards, the forward-compatibility package also helps.
    References:
        - https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
        - https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
        - https://github.com/pytorch/pytorch/issues/4546
    """

    code = Code("ENV003")
    name = "driver-too-old"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages = (
        LogMessage(
            kind="too-old",
            cue="on your system is too old",
            pattern=r"NVIDIA driver on your system is too old \(found version (?P<version>\d+)\)",
            text="The NVIDIA driver is too old for this torch[: it supports CUDA version code {version} at most].",
            source="torch/csrc/cuda/Module.cpp",
        ),
        LogMessage(
            kind="insufficient",
            cue=("driver version is insufficient", "cudaerrorinsufficientdriver"),
            pattern="CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver",
            text="The NVIDIA driver is older than the CUDA runtime that the program uses.",
            everywhere=True,
        ),
        LogMessage(
            kind="image-requirement",
            cue="requirement error: unsatisfied condition",
            pattern=r"nvidia-container-cli(?:\.real)?: requirement error: unsatisfied condition: "
            r"(?P<condition>[^,\\\s\"]{1,60})",
            text="The container did not start: its image needs a newer driver ({condition}).",
            everywhere=True,
            unstarted=True,
            outside=True,
            closing=True,
            source="libnvidia-container",
        ),
        LogMessage(
            kind="compatibility",
            cue=("unsupported display driver", "error 803", "forward compatibility was attempted", "error 804"),
            pattern="unsupported display driver / cuda driver combination|[Ee]rror 803|"
            "forward compatibility was attempted on non[ -]supported (?:HW|hardware)|[Ee]rror 804",
            text="A CUDA compatibility library newer than the driver was loaded on a GPU that does not "
            "support it (error 804).",
        ),
        LogMessage(
            kind="ptx",
            cue=("compiled with an unsupported", "cudaerrorunsupportedptxversion"),
            pattern="PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion",
            text="A kernel was compiled by a CUDA toolkit that is newer than the driver.",
        ),
        LogMessage(
            kind="warned",
            cue="on your system is too old",
            pattern="driver on your system is too old",
            text="The NVIDIA driver is too old for this torch, so CUDA was not available.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains="(?i)cuda|gpu|bf16|fp16|deserialize|accelerator",
        ),
        LogMessage(
            kind="insufficient",
            cue=("driver version is insufficient", "compiled with an unsupported", "unsupported display driver"),
            pattern=call_failed(
                r"(?:CUDA )?driver version is insufficient|the provided PTX was compiled with an "
                r"unsupported|system has unsupported display driver"
            ),
            text="The driver is older than the program's CUDA needs.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            closing=True,
            source="CUDA driver_types.h, HIP; how C++ programs print it",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = patient.gpus
        survey = patient.gpu_survey
        torch = patient.torch
        if torch.cuda is None or survey.compat_libcuda is not None or any(is_jetson(gpu.name) for gpu in gpus):
            return
        driver = survey.driver_version
        if isinstance(driver, Absent):
            raise Unavailable(say("the driver's version: {reason}", reason=driver.reason))
        floor = floor_of(torch.cuda)
        speaks = survey.cuda_driver_version
        newest = None if isinstance(speaks, Absent) else speaks
        if not _too_old(numbers(driver), floor, newest, numbers(torch.cuda)):
            return
        wanted = (
            say("needs {floor} or newer", floor=floor)
            if floor
            else say("needs a driver for CUDA {cuda}", cuda=torch.cuda)
        )
        knows = say(", which supports CUDA up to {version}", version=dotted(newest)) if newest else ""
        yield self.finding(
            say(
                "torch {version} is built with CUDA {cuda} and {wanted}; the driver is {driver}{knows}.",
                version=torch.version,
                cuda=torch.cuda,
                wanted=wanted,
                driver=driver,
                knows=knows,
            ),
            evidence=(
                Measurement(
                    name="driver_version",
                    value=driver,
                    unit="",
                    reproduce="nvidia-smi --query-gpu=driver_version --format=csv,noheader",
                ),
                Measurement(
                    name="torch_cuda",
                    value=torch.cuda,
                    unit="",
                    provenance=Provenance.DECLARED,
                    reproduce=f"{patient.packages.executable} -c 'import torch; print(torch.version.cuda)'",
                ),
            ),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks=say("torch cannot start CUDA: the run fails or falls back to the CPU")),
            subject="driver",
            detail=DriverTooOldDetail(
                torch=torch.version,
                cuda=torch.cuda,
                driver=driver,
                floor=floor or "",
                toolkit_driver=toolkit_driver(torch.cuda) or "",
            ),
        )


def _too_old(driver: tuple[int, ...], floor: str | None, speaks: tuple[int, ...] | None, cuda: tuple[int, ...]) -> bool:
    """Whether the driver cannot run that CUDA.

    The CUDA that the driver itself says it speaks settles it where it is known: it knows about custom builds.
    """
    if speaks is not None and cuda and speaks[0] >= cuda[0]:
        return False
    if floor is not None:
        return bool(driver) and driver < numbers(floor)
    return speaks is not None and bool(cuda) and speaks[0] < cuda[0]
