"""Rules on the environment: which torch, driver and packages to install."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources

from gpudoctor.lang import say, template
from gpudoctor.model import Effort, Facts, Finding, Patient, Remedy, Unavailable, answers
from gpudoctor.model.cuda import Capability, dotted, numbers, runs_on
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Absent
from gpudoctor.text import chained
from gpudoctor_rules.remedies import remedy

INDEX = "https://download.pytorch.org/whl"
TABLE = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md#pytorch-cuda-support-matrix"


@frozen
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
def _builds() -> tuple[Build, ...]:
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


def _choose(
    driver: str, speaks: tuple[int, int] | None, cards: Iterable[Capability], python: str, release: str = ""
) -> Build | None:
    """The build to install: of the installed release when one fits, else of the newest that does.

    `driver` is its version ("" when not known) and `speaks` the newest CUDA that it knows. Of several CUDA
    versions the newest that the driver knows wins; otherwise the oldest of its major (minor compatibility).
    """
    wanted = tuple(cards)
    fitting = [build for build in _builds() if _runs(build, driver, speaks, wanted, python)]
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


def _choose_for(patient: Patient, driver: str, capabilities: str, release: str) -> Build | None:
    """The same, with the patient's driver and Python; None too where wheels follow other rules (not x86-64)."""
    if not _is_x86(patient):
        return None
    speaks = patient.gpu_survey.cuda_driver_version
    cards = [(card[0], card[1]) for item in capabilities.split() if len(card := numbers(item)) == 2]
    known = None if isinstance(speaks, Absent) else (speaks[0], speaks[1])
    return _choose(driver, known, cards, patient.packages.python, release)


def _is_x86(patient: Patient) -> bool:
    try:
        system = patient.host.system
    except Unavailable:
        return True
    return not any(word in system.lower() for word in ("aarch64", "arm64", "ppc64", "riscv"))


def _install_line(patient: Patient, build: Build, release: str = "") -> str:
    """The command that installs the build and the companions that are there now, in the right versions.

    The local part (`+cu126`) is spelt out: pip takes an installed 2.13.0+cpu for 2.13.0 and would do nothing.
    """
    same = (
        numbers(release)[:3]
        if numbers(release)[:2] == build.series and release.partition("+")[0].replace(".", "").isdigit()
        else None
    )
    version = dotted(same) if same and len(same) == 3 else build.torch
    parts = [f"torch=={version}+{build.tag}", *_companions(patient, version, build.tag)]
    line = f"pip install {' '.join(parts)} --index-url {INDEX}/{build.tag}"
    return say("{line}   # in the environment of {executable}", line=line, executable=patient.packages.executable)


def _companions(patient: Patient, torch: str, tag: str) -> Iterator[str]:
    """The installed companions of torch, in the releases that go with it."""
    try:
        installed = patient.packages.distributions
    except Unavailable:
        return
    for name in ("torchvision", "torchaudio"):
        if name in installed:
            version = _companion_version(name, torch)
            yield f"{name}=={version}+{tag}" if version else name


_START = "https://pytorch.org/get-started/locally/"


@answers("ENV002")
def torch_cpu_build(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The CUDA build of the installed release that this driver and these cards run."""
    detail = finding.detail_of(Facts)
    release, driver = detail.torch, detail.driver
    build = _choose_for(patient, driver, detail.capabilities, release)
    python = patient.packages.executable
    look = say("{python} -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())'", python=python)
    if build is None:
        yield remedy(
            "ENV002-select",
            "install a CUDA build of torch: choose it for this driver and this machine",
            say("choose CUDA and the package manager at {url}", url=_START),
            say("the wheels are under {url}", url=INDEX),
            look,
            effort=Effort.COMMAND,
            references=(_START,),
        )
        return
    line = _install_line(patient, build, release)
    runs = (
        say("driver {driver} runs it", driver=driver)
        if driver
        else say("any driver from {driver} runs it", driver=build.floor)
    )
    yield remedy(
        "ENV002-install",
        say("install the {tag} build of torch ({why})", tag=build.tag, why=runs),
        line,
        look,
        effort=Effort.COMMAND,
        sets=(("torch", build.tag),),
        references=(_START, TABLE),
    )


_MINOR = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"


@answers("ENV003")
def driver_too_old(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Another torch build for this driver, or another driver for this torch."""
    detail = finding.detail_of(Facts)
    release, driver, floor = detail.torch, detail.driver, detail.floor
    told = [gpu.compute_capability for gpu in patient.gpus]
    cards = dict.fromkeys(dotted(card) for card in told if not isinstance(card, Absent))
    build = _choose_for(patient, driver, " ".join(cards), release)
    if build is not None:
        older = "" if build.series == numbers(release)[:2] else say(" (an older torch, {torch})", torch=build.torch)
        text = template("install the {tag} build of torch, which driver {driver} runs{older}")
        yield remedy(
            "ENV003-torch-build",
            say(text, tag=build.tag, driver=driver, older=older),
            _install_line(patient, build, release),
            effort=Effort.COMMAND,
            sets=(("torch", build.tag),),
            references=(TABLE,),
        )
    text = template("torch {torch} needs driver {floor} or newer; this node has {driver}")
    yield remedy(
        "ENV003-driver",
        say("ask the administrator for driver {floor} or newer", floor=floor),
        say(text, torch=release, floor=floor, driver=driver),
        "after the update: nvidia-smi --query-gpu=driver_version --format=csv,noheader",
        effort=Effort.ADMINISTRATOR,
        references=(_MINOR,),
    )


_SOURCE = "https://github.com/pytorch/pytorch#from-source"


@answers("ENV004")
def gpu_arch_unsupported(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """A build that has the architecture; where none does, one's own."""
    detail = finding.detail_of(Facts)
    card, release = detail.capabilities, detail.torch
    build = _choose_for(patient, detail.driver, card, release)
    if build is None:
        yield remedy(
            "ENV004-source",
            say("build torch from source: no published build for this driver has code for {card}", card=card),
            say("TORCH_CUDA_ARCH_LIST={card} as in {guide}", card=card, guide=_SOURCE),
            say("or look for a newer release, or a newer driver: {table}", table=TABLE),
            effort=Effort.REWRITE,
            references=(_SOURCE, TABLE),
        )
        return
    yield remedy(
        "ENV004-install",
        say(
            "install torch {torch}+{tag}, which has code for capability {card}",
            torch=build.torch,
            tag=build.tag,
            card=card,
        ),
        _install_line(patient, build, release),
        say(
            "{executable} -c 'import torch; print(torch.cuda.get_arch_list())'", executable=patient.packages.executable
        ),
        effort=Effort.COMMAND,
        sets=(("torch", build.tag),),
        references=(TABLE,),
    )


_VISION = "https://github.com/pytorch/vision#installation"


_PLAIN = {
    "numpy": (say("install NumPy 1"), "pip install 'numpy<2'", "or: pip install 'torch>=2.3'"),
    "flash-attn": (
        say("reinstall flash-attn against this torch"),
        "pip uninstall -y flash-attn",
        "pip install flash-attn --no-build-isolation --no-cache-dir",
    ),
    "bitsandbytes": (
        say("install a bitsandbytes that has the library for torch's CUDA"),
        "unset BNB_CUDA_VERSION",
        "pip install --upgrade bitsandbytes && python -m bitsandbytes",
    ),
    "two-stacks": (
        say("build the environment anew, so that one CUDA major is left"),
        say("python -m venv .venv && .venv/bin/pip install torch   # then the rest of the stack"),
    ),
}
"""Kind of a conflict to the title and the steps of what helps, whatever the versions are."""


@answers("ENV005")
def package_conflict(finding: Finding) -> Iterator[Remedy]:
    """The version to install, as one pip line."""
    detail = finding.detail_of(Facts)
    if detail.kind == "requirement":
        yield from _requirement(detail)
    elif detail.kind == "companion":
        yield _companion(detail.name, detail.torch, detail.cuda)
    elif detail.kind in _PLAIN:
        title, *steps = _PLAIN[detail.kind]
        yield _pip(detail.kind, title, tuple(steps))
    elif detail.kind == "project":
        yield _pip(
            "project",
            say("create an environment with the versions that the project asks for"),
            ("python -m venv .venv", f".venv/bin/pip install {' '.join(map(repr, detail.asked))}"),
        )


def _pip(
    word: str,
    title: str,
    steps: tuple[str, ...],
    sets: tuple[tuple[str, str], ...] = (),
    references: tuple[str, ...] = (),
) -> Remedy:
    return remedy(f"ENV005-{word}", title, *steps, effort=Effort.COMMAND, sets=sets, references=references)


def _requirement(detail: Facts) -> Iterator[Remedy]:
    by, name, have = list(detail.by), detail.name, detail.have
    if name == "torch" and have and set(by) <= {"torchvision", "torchaudio"}:
        yield from (_companion(item, have, _cuda_of(have)) for item in by)
        return
    if detail.together or not have:
        target = f"{name}{detail.together}"
        yield _pip(
            name,
            say("install {requirement}", requirement=target),
            (f"pip install '{target}'", "pip check"),
            sets=((name, detail.together or "any"),),
        )
    if have:
        yield _pip(
            f"{name}-requirer",
            say(
                "move {movers} to a release that takes {package} {version}",
                movers=chained(by),
                package=name,
                version=have,
            ),
            (f"pip install --upgrade {' '.join(by)} '{name}=={have.partition('+')[0]}'", "pip check"),
        )


def _companion(name: str, torch: str, cuda: str) -> Remedy:
    """The release of torchvision or torchaudio for this torch, of the same CUDA build."""
    tag = f"cu{cuda.replace('.', '')[:3]}" if cuda else "cpu"
    version = _companion_version(name, torch)
    pin = f"{name}=={version}+{tag}" if version else name
    force = "" if version else "--force-reinstall --no-deps "
    return _pip(
        name,
        say(
            "install the {name} that belongs to torch {torch}{version}",
            name=name,
            torch=torch,
            version=say(": {version}", version=version) if version else "",
        ),
        (f"pip install {force}{pin} --index-url {INDEX}/{tag}",),
        sets=((name, version or tag),),
        references=(_VISION,),
    )


def _companion_version(name: str, torch: str) -> str:
    """torchvision 0.(minor + 15).patch goes with torch 2.minor.patch, torchaudio with torch's own to 2.8; else ""."""
    version = numbers(torch)
    final = torch.partition("+")[0].replace(".", "").isdigit()
    if len(version) < 3 or version[0] != 2 or not final:
        return ""
    if name == "torchvision":
        return f"0.{version[1] + 15}.{version[2]}"
    return ".".join(str(part) for part in version[:3]) if version[1] <= 8 else ""


def _cuda_of(torch: str) -> str:
    """CUDA of a local version, "12.6" of `2.13.0+cu126`; "" for a CPU build or none."""
    local = torch.partition("+")[2]
    return f"{local[2:4]}.{local[4:]}" if local.startswith("cu") and local[2:].isdigit() else ""
