"""ENV003."""

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.cuda import is_jetson, numbers
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.unavailable import Absent, Unavailable, known
from gpudoctor_checks.environment.torch_reading import of_torch

_QUERY = "nvidia-smi --query-gpu"


@cache
def _floors() -> dict[str, str]:
    """The oldest driver for each CUDA major version."""
    text = resources.files("gpudoctor_checks.environment").joinpath("driver_floors.json").read_text("utf-8")
    return dict(json.loads(text)["floors"])


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
    """

    code = "ENV003"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = patient.gpus
        survey = patient.gpu_survey
        torch = patient.torch
        if torch.cuda is None or survey.compat_libcuda is not None or any(is_jetson(gpu.name) for gpu in gpus):
            return
        driver = survey.driver_version
        if isinstance(driver, Absent):
            raise Unavailable(say("the driver's version: {reason}", reason=driver.reason))
        cuda, newest = numbers(torch.cuda), known(survey.cuda_driver_version)
        floor = _floors().get(str(cuda[0])) if cuda else None
        # The CUDA that the driver itself says it speaks settles it where it is known: it knows about custom builds.
        speaks = newest is not None and bool(cuda) and newest[0] >= cuda[0]
        if floor is None or speaks or not numbers(driver) or numbers(driver) >= numbers(floor):
            return
        yield self.finding(
            say(
                "torch {version} is built with CUDA {cuda} and needs {floor} or newer; the driver is {driver}.",
                version=torch.version,
                cuda=torch.cuda,
                floor=floor,
                driver=driver,
            ),
            evidence=(
                Measurement("driver_version", driver, "", reproduce=f"{_QUERY}=driver_version --format=csv,noheader"),
                of_torch(patient, "torch_cuda", torch.cuda, "torch.version.cuda"),
            ),
            breaks=say("torch cannot start CUDA: the run fails or falls back to the CPU"),
            subject="driver",
            detail=Facts(torch=torch.version, cuda=torch.cuda, driver=driver, floor=floor),
        )
