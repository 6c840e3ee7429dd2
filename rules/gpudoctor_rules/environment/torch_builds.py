"""Which build of torch to install on a machine: the table of CUDA builds, and the choice from it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gpudoctor.lang import say
from gpudoctor.model import Patient, Unavailable
from gpudoctor.model.cuda import Capability, dotted, numbers, runs_on
from gpudoctor.model.unavailable import Absent

INDEX = "https://download.pytorch.org/whl"
TABLE = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md#pytorch-cuda-support-matrix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One CUDA build of one release."""

    torch: str
    """`2.9.1`."""
    tag: str
    """`cu128`."""
    architectures: tuple[str, ...]
    """`sm_80`..."""
    pythons: tuple[str, str]
    """Oldest and newest Python of the release."""
    floor: str
    """Oldest driver."""

    @property
    def cuda(self) -> tuple[int, int]:
        """(12, 8) of `cu128`."""
        return int(self.tag[2:-1]), int(self.tag[-1])

    @property
    def series(self) -> tuple[int, ...]:
        """(2, 9) of 2.9.1."""
        return numbers(self.torch)[:2]


@cache
def builds() -> tuple[Build, ...]:
    """Every build of the table, the oldest release first."""
    text = resources.files("gpudoctor_rules.environment").joinpath("torch_builds.json").read_text("utf-8")
    table = json.loads(text)
    return tuple(
        Build(
            torch=release["torch"],
            tag=tag,
            architectures=tuple("sm_" + item.replace(".", "") for item in capabilities),
            pythons=(release["python"][0], release["python"][1]),
            floor=table["floors"][tag[2:-1]],
        )
        for release in table["releases"]
        for tag, capabilities in release["builds"].items()
    )


def choose(
    driver: str, speaks: tuple[int, int] | None, cards: Iterable[Capability], python: str, release: str = ""
) -> Build | None:
    """The build to install: of the installed release when one fits, else of the newest that does.

    `driver` is its version ("" when not known) and `speaks` the newest CUDA that it knows. Of several CUDA
    versions the newest that the driver knows wins; otherwise the oldest of its major (minor compatibility).
    """
    wanted = tuple(cards)
    fitting = [build for build in builds() if _runs(build, driver, speaks, wanted, python)]
    if not fitting:
        return None
    series = numbers(release)[:2]
    same = [build for build in fitting if build.series == series]
    newest = max(build.series for build in fitting)
    pool = same or [build for build in fitting if build.series == newest]
    known = [build for build in pool if speaks is not None and build.cuda <= speaks]
    return max(known, key=lambda b: b.cuda) if known else min(pool, key=lambda b: b.cuda)


def _runs(
    build: Build, driver: str, speaks: tuple[int, int] | None, cards: tuple[Capability, ...], python: str
) -> bool:
    if driver and numbers(driver) < numbers(build.floor) and not (speaks and speaks[0] >= build.cuda[0]):
        return False
    series = numbers(python)[:2]
    if series and not numbers(build.pythons[0]) <= series <= numbers(build.pythons[1]):
        return False
    return all(runs_on(build.architectures, card) is not None for card in cards)


def choose_for(patient: Patient, driver: str, capabilities: str, release: str) -> Build | None:
    """The same, with the patient's driver and Python; None too where wheels follow other rules (not x86-64)."""
    if not _is_x86(patient):
        return None
    speaks = patient.gpu_survey.cuda_driver_version
    cards = [(card[0], card[1]) for item in capabilities.split() if len(card := numbers(item)) == 2]
    known = None if isinstance(speaks, Absent) else (speaks[0], speaks[1])
    return choose(driver, known, cards, patient.packages.python, release)


def _is_x86(patient: Patient) -> bool:
    try:
        system = patient.host.system
    except Unavailable:
        return True
    return not any(word in system.lower() for word in ("aarch64", "arm64", "ppc64", "riscv"))


def install_line(patient: Patient, build: Build, release: str = "") -> str:
    """The command that installs the build and the companions that are there now, in the right versions.

    The local part (`+cu126`) is spelt out: pip takes an installed 2.13.0+cpu for 2.13.0 and would do nothing.
    """
    same = numbers(release)[:3] if numbers(release)[:2] == build.series and _is_final(release) else None
    version = dotted(same) if same and len(same) == 3 else build.torch
    parts = [f"torch=={version}+{build.tag}", *_companions(patient, version, build.tag)]
    line = f"pip install {' '.join(parts)} --index-url {INDEX}/{build.tag}"
    return say("{line}   # in the environment of {executable}", line=line, executable=patient.packages.executable)


def _is_final(release: str) -> bool:
    return release.partition("+")[0].replace(".", "").isdigit()


def _companions(patient: Patient, torch: str, tag: str) -> Iterator[str]:
    """torchvision 0.(minor + 15).patch goes with torch 2.minor.patch, torchaudio with torch's own to 2.8."""
    try:
        installed = patient.packages.distributions
    except Unavailable:
        return
    major, minor, patch = (*numbers(torch), 0, 0)[:3]
    if "torchvision" in installed:
        yield f"torchvision==0.{minor + 15}.{patch}+{tag}" if major == 2 else "torchvision"
    if "torchaudio" in installed:
        yield f"torchaudio=={torch}+{tag}" if major == 2 and minor <= 8 else "torchaudio"
