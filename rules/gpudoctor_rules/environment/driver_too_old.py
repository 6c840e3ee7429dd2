"""Answers ENV003 driver-too-old."""

import re
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.cuda import dotted, numbers
from gpudoctor.model.unavailable import Absent
from gpudoctor_checks.environment.driver_too_old import DriverTooOldDetail
from gpudoctor_rules.environment.torch_builds import TABLE, choose_for, install_line

_MINOR = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
_FORWARD = "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html"
_DATA_CENTRE = re.compile(
    r"\b(?:G?[HB]\d{2,3}|A100|A800|A30|A40|A10G?|A16|A2|L4|L20|L40S?|T4|V100\w*|P100|P40|P4)\b|Tesla"
)
"""Names of the cards for which NVIDIA supports forward compatibility (data centre, not GeForce)."""


class DriverTooOldRule(Rule):
    """Another torch build for this driver, another driver for this torch, or the compatibility package."""

    answers = Code("ENV003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        yield from self._older_build(finding, patient)
        yield self._newer_driver(finding)
        yield from self._forward(finding, patient)

    def _older_build(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(DriverTooOldDetail)
        release, driver = detail.torch, detail.driver
        cards = " ".join(
            dict.fromkeys(
                dotted(gpu.compute_capability) for gpu in patient.gpus if not isinstance(gpu.compute_capability, Absent)
            )
        )
        build = choose_for(patient, driver, cards, release)
        if build is None:
            return
        older = "" if build.series == numbers(release)[:2] else say(" (an older torch, {torch})", torch=build.torch)
        yield Remedy(
            id=f"{self.answers}-torch-build",
            title=say(
                "install the {tag} build of torch, which driver {driver} runs{older}",
                tag=build.tag,
                driver=driver,
                older=older,
            ),
            steps=(install_line(patient, build, release),),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            sets=(("torch", build.tag),),
            references=(TABLE,),
        )

    def _newer_driver(self, finding: Finding) -> Remedy:
        detail = finding.detail_of(DriverTooOldDetail)
        floor, cuda = detail.floor, detail.cuda
        toolkit = detail.toolkit_driver
        branch = say("driver {floor} or newer", floor=floor) if floor else say("a driver for CUDA {cuda}", cuda=cuda)
        return Remedy(
            id=f"{self.answers}-driver",
            title=say("ask the administrator for {branch}", branch=branch),
            steps=(
                say(
                    "torch {torch} needs {branch}; this node has {driver}",
                    torch=detail.torch,
                    branch=branch,
                    driver=detail.driver,
                ),
                *(
                    (say("the driver that came with CUDA {cuda} is {toolkit}", cuda=cuda, toolkit=toolkit),)
                    if toolkit not in {"", floor}
                    else ()
                ),
                "after the update: nvidia-smi --query-gpu=driver_version --format=csv,noheader",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ADMINISTRATOR,
            references=(_MINOR,),
        )

    def _forward(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        """Forward compatibility works on data-centre cards only."""
        detail = finding.detail_of(DriverTooOldDetail)
        gpus = patient.gpus
        version = numbers(detail.cuda)
        if len(version) < 2 or not all(_DATA_CENTRE.search(gpu.name) for gpu in gpus):
            return
        package = f"cuda-compat-{version[0]}-{version[1]}"
        yield Remedy(
            id=f"{self.answers}-forward-compatibility",
            title=say(
                "put NVIDIA's {package} in front of the driver's libcuda, without touching the driver", package=package
            ),
            steps=(
                say(
                    "apt-get install {package}   # or: dnf install {package}; some containers have it already",
                    package=package,
                ),
                f"export LD_LIBRARY_PATH=/usr/local/cuda-{dotted(version[:2])}/compat:$LD_LIBRARY_PATH",
                say("whether it works on driver {driver}: the table at {table}", driver=detail.driver, table=_FORWARD),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            references=(_FORWARD,),
        )
