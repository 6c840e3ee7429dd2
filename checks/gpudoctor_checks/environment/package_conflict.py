"""ENV005."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gpudoctor.analysis.run.steady_run import processes, trained_well
from gpudoctor.analysis.source.target_versions import installed_version, meant_version
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.cuda import numbers
from gpudoctor.model.evidence import Measurement, Provenance, Setting
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.packages import Distribution, Packages, TorchBuild
from gpudoctor.model.signs.project import Asked
from gpudoctor.model.unavailable import Absent, Unavailable, optional
from gpudoctor.text import chained
from gpudoctor_checks.environment.requirements import STACK, Broken, broken_requirements

_NAMED = 4
"""Packages that the message names; the evidence lists all of them."""
_NVIDIA = re.compile(r"nvidia-(.+)-cu(\d{2})")


@frozen
class PackageConflictDetail(Detail):
    """What the rule reads."""

    kind: str
    """`requirement`, `companion`, `numpy`, `flash-attn`, `bitsandbytes`, `two-stacks`, `project`."""
    name: str
    """The package."""
    torch: str = ""
    cuda: str = ""
    by: tuple[str, ...] = ()
    """Packages that require it."""
    together: str = ""
    """What all of them take."""
    have: str = ""
    """What is there."""
    override: str = ""
    """BNB_CUDA_VERSION."""
    asked: tuple[str, ...] = ()
    """What the project asks for."""
    libraries: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    """CUDA majors of them."""
    needed: str = ""
    """The one that torch asks for."""


class PackageConflict(Check):
    """Packages of the training stack are incompatible.

    What it finds:
        - Requirements inside the stack that the installed versions break (torch, torchvision, transformers,
          tokenizers, accelerate, peft, ...).
        - Torchvision or torchaudio built for another CUDA than torch.
        - A flash-attn compiled for another torch or C++ ABI.
        - A bitsandbytes without the library for torch's CUDA.
        - NumPy 2 under a torch that was compiled for NumPy 1.
        - The libraries of two CUDA major versions together.
        - A project whose own files require other versions than the installed ones.
        - From a job's log: a module that is missing, or a name that cannot be imported.
    Why it hurts:
        The import dies (`undefined symbol: _ZN3c10...`, `operator torchvision::nms does not exist`). Or an
        optional kernel is silently disabled and the slow path runs. Or one CUDA library replaces the other and
        the crash comes hours later.
    How it knows:
        It reads the metadata and a few files of the installed packages:
        - `Requires-Dist`, with markers evaluated for that environment's Python
        - the version files and the names of libraries
        - the C++ ABI in the symbol table

        gpudoctor imports nothing. The project's requirements come from its requirements, pyproject, setup and
        conda files. gpudoctor searches from the script's folder up to the top of its repository.
        From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        Extras are optional and are not checked. A stack built from source may have version numbers that its
        metadata does not allow and still work. Such a conflict is a warning. It is an error only if the import
        or the first use is known to fail. It is a note after a run that trained to its end. It is also a note
        if the run died of an exception that names none of these packages. That run did not need the broken
        package.
    Remedies:
        Install the version that fits: the finding has one pip line for this environment.
    References:
        - https://github.com/Dao-AILab/flash-attention/issues/975
        - https://github.com/pytorch/pytorch/issues/186591
        - https://github.com/pytorch/vision/issues/8985
        - https://packaging.python.org/en/latest/specifications/dependency-specifiers/
    """

    code = Code("ENV005")
    name = "package-conflict"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("numpy2_torch", 2.3, "1", "PyTorch 2.3 release notes: the first release built for NumPy 2",
                  "an older torch cannot exchange arrays with NumPy 2"),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        yield from self._project(patient)
        trained = any(len(rank.steps) for rank in processes(patient))
        died = "".join(str(item.fields) for rank in processes(patient) for item in rank.of("exception"))
        for finding in self._conflicts(patient):
            words = {finding.subject, *finding.detail_of(PackageConflictDetail).by}
            named = any(word.replace("-", "_") in died.replace("-", "_") for word in words)
            # What breaks at its first use was not used: the run is the proof.
            unused = trained_well(patient) or (trained and died and not named)
            yield replace(finding, severity=Severity.NOTE, cost=Cost()) if unused else finding

    def _conflicts(self, patient: Patient) -> Iterator[Finding]:
        packages, torch = patient.packages, optional(lambda: patient.torch)
        for broken in broken_requirements(packages):
            yield self._broken(broken, packages)
        yield from self._two_stacks(packages)
        if torch is not None:
            yield from self._numpy(packages, torch)
            yield from self._companions(packages, torch)
            yield from self._flash_attention(packages, torch)
            environment = optional(lambda: patient.environment)
            override = (environment.get("BNB_CUDA_VERSION") or "") if environment is not None else ""
            override = override if override.isdigit() and len(override) == 3 else ""
            yield from self._bitsandbytes(packages, torch, override)

    def _project(self, patient: Patient) -> Iterator[Finding]:
        """One note for all packages that the project asks for in another version."""
        unmet: dict[tuple[str, str], Asked] = {}
        for path in _examined(patient):
            for name in sorted(STACK):
                asked = meant_version(patient, name, path).asked
                if asked is not None and installed_version(patient, name) is not None:
                    unmet.setdefault((name, asked.wanted), asked)
        if not unmet:
            return
        rows = list(unmet.values())
        named = [
            say(
                "{name}{wanted} ({installed_version})",
                name=item.name,
                wanted=item.wanted,
                installed_version=installed_version(patient, item.name),
            )
            for item in rows[:_NAMED]
        ]
        yield self.finding(
            say(
                "The project requires other versions than the installed ones: {named}{more}.",
                named=concatenated(", ", named),
                more=say(" and {named} more", named=len(rows) - _NAMED) if len(rows) > _NAMED else "",
            ),
            evidence=tuple(
                Setting(key=item.name, value=item.wanted, origin=item.path, path=item.path, line=item.line)
                for item in rows
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.NOTE,
            subject="project",
            detail=PackageConflictDetail(
                kind="project", name=rows[0].name, asked=tuple(f"{item.name}{item.wanted}" for item in rows)
            ),
        )

    def _broken(self, broken: Broken, packages: Packages) -> Finding:
        asked = [
            say(
                "{by} {version} requires {broken}{wanted}",
                by=by.name,
                version=by.version,
                broken=broken.name,
                wanted=wanted,
            )
            for by, wanted in broken.wishes
        ]
        state = say("{broken} is not installed", broken=broken.name)
        if broken.have:
            state = say("{broken} {have} is installed", broken=broken.name, have=broken.have)
        return self.finding(
            say("{asked}; {state}.", asked=", ".join(asked), state=state),
            evidence=tuple(
                Measurement(
                    f"requires_dist_{by.name}",
                    f"{broken.name}{wanted}",
                    "",
                    provenance=Provenance.DECLARED,
                    reproduce=f"{packages.executable} -m pip check",
                )
                for by, wanted in broken.wishes
            ),
            confidence=Confidence.CONFIRMED,
            severity=broken.severity,
            cost=Cost(breaks=broken.breaks),
            subject=broken.name,
            detail=PackageConflictDetail(
                kind="requirement",
                by=tuple(by.name for by, _ in broken.wishes),
                name=broken.name,
                together=broken.together,
                have=broken.have or "",
            ),
        )

    def _two_stacks(self, packages: Packages) -> Iterator[Finding]:
        """The same library for two CUDA majors: nvidia-cudnn-cu12 and -cu13 even unpack into one folder."""
        majors: dict[str, list[str]] = defaultdict(list)
        for name in packages.distributions:
            match = _NVIDIA.fullmatch(name)
            if match:
                majors[match[1]].append(match[2])
        twice = sorted(name for name, found in majors.items() if len(found) > 1)
        if not twice:
            return
        stacks = sorted({major for name in twice for major in majors[name]})
        first = packages.distributions[f"nvidia-{twice[0]}-cu{stacks[0]}"]
        torch = packages.version("torch")
        beside = say(" beside torch {torch}", torch=torch) if torch else ""
        message = say(
            "libraries for {stacks} are both "
            "installed{beside}: {twice}. Packages that use the same folder overwrite each other.",
            stacks=chained(f"CUDA {major}" for major in stacks),
            beside=beside,
            twice=", ".join(twice),
        )
        facts = {"libraries": tuple(twice), "stacks": tuple(stacks), "needed": _needed(packages, stacks)}
        yield self._conflict(message, first, None, Confidence.PROBABLE, kind="two-stacks", **facts)

    def _numpy(self, packages: Packages, torch: TorchBuild) -> Iterator[Finding]:
        numpy = packages.distributions.get("numpy")
        if numpy is None or numbers(numpy.version)[:1] < (2,):
            return
        if not numbers(torch.version) or _decimal(torch.version) >= self.limit("numpy2_torch"):
            return
        message = say(
            "torch {version} was compiled for NumPy 1, and numpy {numpy_version} is installed.",
            version=torch.version,
            numpy_version=numpy.version,
        )
        breaks = say('every exchange with NumPy fails ("Numpy is not available")')
        yield self._conflict(message, numpy, breaks, kind="numpy", torch=torch.version)

    def _companions(self, packages: Packages, torch: TorchBuild) -> Iterator[Finding]:
        """torchvision and torchaudio against torch: a CPU and a CUDA build, or two CUDA majors."""
        if torch.hip is not None:
            return
        for name in ("torchvision", "torchaudio"):
            found = packages.distributions.get(name)
            built = found.native.cuda if found and found.native else None
            if found is None or built is None:
                continue
            own = torch.cuda or "cpu"
            if built == own or ("cpu" not in (built, own) and numbers(built)[:1] == numbers(own)[:1]):
                continue
            message = say(
                "{name} {version} is built for {cuda}, torch {torch_version} for {torch_cuda}.",
                name=name,
                version=found.version,
                cuda=_cuda(built),
                torch_version=torch.version,
                torch_cuda=_cuda(own),
            )
            fails = say("import {package} fails, or its operators are missing", package=name)
            breaks = None if built == "cpu" else fails
            yield self._conflict(message, found, breaks, kind="companion", torch=torch.version, cuda=torch.cuda or "")

    def _flash_attention(self, packages: Packages, torch: TorchBuild) -> Iterator[Finding]:
        found = packages.distributions.get("flash-attn")
        built = found.native if found else None
        if found is None or built is None or torch.hip is not None:
            return
        differs = _flash_difference(built.torch, built.cuda, built.cxx11_abi, torch)
        if differs:
            message = say("flash-attn {version} was compiled for {differs}.", version=found.version, differs=differs)
            breaks = say("import flash_attn fails with an undefined symbol or a missing library")
            yield self._conflict(message, found, breaks, kind="flash-attn", torch=torch.version, cuda=torch.cuda or "")

    def _bitsandbytes(self, packages: Packages, torch: TorchBuild, override: str) -> Iterator[Finding]:
        found = packages.distributions.get("bitsandbytes")
        built = found.native if found else None
        if found is None or built is None or torch.cuda is None or not built.libraries:
            return
        wanted = override or torch.cuda.replace(".", "")[:3]
        have = [match[1] for name in built.libraries if (match := re.search(r"_cuda(\d{3})", name))]
        near = built.nearest and not override and any(item[:2] == wanted[:2] for item in have)
        if wanted in have or near:
            return
        listed = (
            f"CUDA {', '.join(f'{item[:2]}.{item[2:]}' for item in dict.fromkeys(have))}" if have else say("the CPU")
        )
        message = say(
            "bitsandbytes {version} has no library for CUDA {major}.{minor}{override}, which torch {torch_version} "
            "needs; it has libraries for {listed}.",
            version=found.version,
            major=wanted[:2],
            minor=wanted[2:],
            override=" (BNB_CUDA_VERSION)" if override else "",
            torch_version=torch.version,
            listed=listed,
        )
        breaks = say("8-bit optimizers and quantised layers fail on the GPU")
        own = " ".join(dict.fromkeys(have))
        yield self._conflict(message, found, breaks, kind="bitsandbytes", override=override, have=own)

    def _conflict(
        self,
        message: str,
        package: Distribution,
        breaks: str | None,
        confidence: Confidence = Confidence.CONFIRMED,
        **facts: Any,
    ) -> Finding:
        """A package that does not fit: an error where something is known to fail."""
        return self.finding(
            message,
            evidence=(
                Measurement(
                    f"{package.name}_version",
                    package.version,
                    "",
                    provenance=Provenance.DECLARED,
                    reproduce=f"pip show {package.name}",
                ),
            ),
            confidence=confidence,
            severity=Severity.ERROR if breaks else Severity.WARNING,
            cost=Cost(breaks=breaks),
            subject=package.name,
            detail=PackageConflictDetail(name=package.name, **facts),
        )


def _examined(patient: Patient) -> list[str]:
    """One file of each folder with scripts or configs: what a project asks for is the same in all of them."""
    paths = []
    with suppress(Unavailable):
        paths += [script.path for script in patient.source.scripts]
    with suppress(Unavailable):
        paths += [file.path for file in patient.configs.files]
    return list({os.path.dirname(path): path for path in paths}.values())


def _decimal(version: str) -> float:
    """Major and minor as one number that compares: 2.3 of `2.3.1`, 2.10 above 2.9 by hundredths of a major."""
    major, minor = (*numbers(version), 0, 0)[:2]
    return major + (minor / 10 if minor < 10 else 0.99)


def _cuda(version: str) -> str:
    return say("the CPU") if version == "cpu" else f"CUDA {version}"


def _needed(packages: Packages, stacks: list[str]) -> str:
    """The CUDA major that torch's own metadata asks for, "" when it does not say."""
    torch = packages.distributions.get("torch")
    asked = {major for line in (torch.requires if torch else ()) for major in re.findall(r"-cu(\d{2})\b", line)}
    both = asked & set(stacks)
    return next(iter(both)) if len(both) == 1 else ""


def _flash_difference(built: str | None, cuda: str | None, abi: bool | None, torch: TorchBuild) -> str:
    """What the wheel was compiled for that this torch is not, as a clause; "" when they agree."""
    if built is not None and numbers(built)[:2] != numbers(torch.version)[:2]:
        return say("torch {built}, and torch {version} is installed", built=built, version=torch.version)
    own = torch.cxx11_abi
    if abi is not None and not isinstance(own, Absent) and abi != own:
        words = {True: say("the C++11 ABI"), False: say("the old C++ ABI")}
        return say(
            "{abi}, and torch {version} uses {torch_abi}", abi=words[abi], version=torch.version, torch_abi=words[own]
        )
    if cuda is not None and torch.cuda is not None and numbers(cuda)[:1] != numbers(torch.cuda)[:1]:
        return say(
            "CUDA {cuda}, and torch {version} for CUDA {torch_cuda}",
            cuda=cuda,
            version=torch.version,
            torch_cuda=torch.cuda,
        )
    return ""
