"""ENV003."""

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources

from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.cuda import dotted, is_jetson, numbers
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Absent, Unavailable, known
from gpudoctor_checks.environment.torch_reading import of_torch

_QUERY = "nvidia-smi --query-gpu"


@cache
def _table() -> dict[str, dict[str, str]]:
    """Oldest drivers by CUDA major (`floors`), and the drivers that came with toolkits (`toolkits`)."""
    text = resources.files("gpudoctor_checks.environment").joinpath("driver_floors.json").read_text("utf-8")
    return {name: table for name, table in json.loads(text).items() if name in ("floors", "toolkits")}


def _drivers(cuda: str) -> tuple[str | None, str]:
    """The oldest driver for a CUDA version and the one that came with it; None and "" where the table has none.

    Before CUDA 11 there was no minor version compatibility: the toolkit's own driver is the floor.
    """
    version = numbers(cuda)
    own = _table()["toolkits"].get(".".join(str(part) for part in version[:2]))
    if not version:
        return None, ""
    return own if version[0] < 11 else _table()["floors"].get(str(version[0])), own or ""


@frozen
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
        floor, toolkit = _drivers(torch.cuda)
        newest = known(survey.cuda_driver_version)
        cuda, own = numbers(torch.cuda), numbers(driver)
        # The CUDA that the driver itself says it speaks settles it where it is known: it knows about custom builds.
        if newest is not None and cuda and newest[0] >= cuda[0]:
            return
        if (not own or own >= numbers(floor)) if floor is not None else (newest is None or not cuda):
            return
        wanted = say("needs a driver for CUDA {cuda}", cuda=torch.cuda)
        wanted = say("needs {floor} or newer", floor=floor) if floor else wanted
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
                Measurement("driver_version", driver, "", reproduce=f"{_QUERY}=driver_version --format=csv,noheader"),
                of_torch(patient, "torch_cuda", torch.cuda, "torch.version.cuda"),
            ),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks=say("torch cannot start CUDA: the run fails or falls back to the CPU")),
            subject="driver",
            detail=DriverTooOldDetail(
                torch=torch.version, cuda=torch.cuda, driver=driver, floor=floor or "", toolkit_driver=toolkit
            ),
        )
