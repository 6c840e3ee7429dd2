"""ENV005."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gpudoctor.analysis.run.steady_run import trained_well
from gpudoctor.analysis.source.target_versions import installed_version, meant_version
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Cost, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.cuda import numbers
from gpudoctor.model.evidence import Measurement, Provenance, Setting
from gpudoctor.model.records import replace
from gpudoctor.model.signs.packages import Distribution, Packages, TorchBuild
from gpudoctor.model.signs.project import Asked
from gpudoctor.model.unavailable import Unavailable, known, optional
from gpudoctor.text import chained
from gpudoctor_checks.environment.requirements import STACK, Broken, broken_requirements

_NAMED = 4
"""Packages that the message names; the evidence lists all of them."""
_FIRST_FOR_NUMPY_2 = (2, 3)
"""The first torch that was built for NumPy 2, by its release notes."""
_NVIDIA = re.compile(r"nvidia-(.+)-cu(\d{2})")


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
    False alarms:
        Extras are optional and are not checked. A stack built from source may have version numbers that its
        metadata does not allow and still work. Such a conflict is a warning. It is an error only if the import
        or the first use is known to fail. It is a note after a run that trained to its end: that run did not
        need the broken package.
    Remedies:
        Install the version that fits: the finding has one pip line for this environment.
    References:
        - https://github.com/Dao-AILab/flash-attention/issues/975
        - https://github.com/pytorch/pytorch/issues/186591
    """

    code = "ENV005"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        yield from self._project(patient)
        trained = trained_well(patient)
        for finding in self._conflicts(patient):
            # What breaks at its first use was not used: the run is the proof.
            yield replace(finding, severity=Severity.NOTE, cost=Cost()) if trained else finding

    def _conflicts(self, patient: Patient) -> Iterator[Finding]:
        packages, torch = patient.packages, optional(lambda: patient.torch)
        for broken in broken_requirements(packages):
            yield self._broken(broken, packages)
        yield from self._two_stacks(packages)
        if torch is not None and torch.hip is None:
            yield from self._numpy(packages, torch)
            yield from self._companions(packages, torch)
            yield from self._flash_attention(packages, torch)
            yield from self._bitsandbytes(packages, torch)

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
            severity=Severity.NOTE,
            subject="project",
            detail=Facts(kind="project", name=rows[0].name, asked=tuple(f"{item.name}{item.wanted}" for item in rows)),
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
            severity=broken.severity,
            breaks=broken.breaks,
            subject=broken.name,
            detail=Facts(
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
            if match := _NVIDIA.fullmatch(name):
                majors[match[1]].append(match[2])
        twice = sorted(name for name, found in majors.items() if len(found) > 1)
        if twice:
            stacks = sorted({major for name in twice for major in majors[name]})
            message = say(
                "libraries for {stacks} are both installed: {twice}. Packages that use the same folder overwrite "
                "each other.",
                stacks=chained(f"CUDA {major}" for major in stacks),
                twice=", ".join(twice),
            )
            first = packages.distributions[f"nvidia-{twice[0]}-cu{majors[twice[0]][0]}"]
            yield self._conflict(message, first, None, kind="two-stacks")

    def _numpy(self, packages: Packages, torch: TorchBuild) -> Iterator[Finding]:
        numpy = packages.distributions.get("numpy")
        own = numbers(torch.version)[:2]
        if numpy is not None and numbers(numpy.version)[:1] >= (2,) and () < own < _FIRST_FOR_NUMPY_2:
            message = say(
                "torch {version} was compiled for NumPy 1, and numpy {numpy_version} is installed.",
                version=torch.version,
                numpy_version=numpy.version,
            )
            breaks = say('every exchange with NumPy fails ("Numpy is not available")')
            yield self._conflict(message, numpy, breaks, kind="numpy", torch=torch.version)

    def _companions(self, packages: Packages, torch: TorchBuild) -> Iterator[Finding]:
        """torchvision and torchaudio against torch: a CPU and a CUDA build, or two CUDA majors."""
        for name in ("torchvision", "torchaudio"):
            found = packages.distributions.get(name)
            built, own = found.native.cuda if found and found.native else None, torch.cuda or "cpu"
            if found is None or built is None or numbers(built)[:1] == numbers(own)[:1]:
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
        built, differs = found.native if found else None, ""
        if found is None or built is None:
            return
        if built.torch is not None and numbers(built.torch)[:2] != numbers(torch.version)[:2]:
            differs = say("torch {built}, and torch {version} is installed", built=built.torch, version=torch.version)
        elif built.cxx11_abi is not None and built.cxx11_abi != (known(torch.cxx11_abi) or built.cxx11_abi):
            differs = say("another C++ ABI than torch {version}", version=torch.version)
        if differs:
            message = say("flash-attn {version} was compiled for {differs}.", version=found.version, differs=differs)
            breaks = say("import flash_attn fails with an undefined symbol or a missing library")
            yield self._conflict(message, found, breaks, kind="flash-attn", torch=torch.version, cuda=torch.cuda or "")

    def _bitsandbytes(self, packages: Packages, torch: TorchBuild) -> Iterator[Finding]:
        found = packages.distributions.get("bitsandbytes")
        built = found.native if found else None
        if found is None or built is None or torch.cuda is None or not built.libraries:
            return
        wanted = torch.cuda.replace(".", "")[:3]
        have = [match[1] for name in built.libraries if (match := re.search(r"_cuda(\d{3})", name))]
        if wanted in have or (built.nearest and any(item[:2] == wanted[:2] for item in have)):
            return
        message = say(
            "bitsandbytes {version} has no library for CUDA {cuda}, which torch {torch_version} needs.",
            version=found.version,
            cuda=torch.cuda,
            torch_version=torch.version,
        )
        breaks = say("8-bit optimizers and quantised layers fail on the GPU")
        yield self._conflict(message, found, breaks, kind="bitsandbytes")

    def _conflict(self, message: str, package: Distribution, breaks: str | None, **facts: Any) -> Finding:
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
            severity=Severity.ERROR if breaks else Severity.WARNING,
            breaks=breaks,
            subject=package.name,
            detail=Facts(name=package.name, **facts),
        )


def _examined(patient: Patient) -> list[str]:
    """One file of each folder with scripts or configs: what a project asks for is the same in all of them."""
    paths = []
    with suppress(Unavailable):
        paths += [script.path for script in patient.source.scripts]
    with suppress(Unavailable):
        paths += [file.path for file in patient.configs.files]
    return list({os.path.dirname(path): path for path in paths}.values())


def _cuda(version: str) -> str:
    return say("the CPU") if version == "cpu" else f"CUDA {version}"
