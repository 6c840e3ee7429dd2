"""Answers ENV005 package-conflict."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, Unavailable
from gpudoctor.model.cuda import numbers
from gpudoctor.model.unavailable import Absent
from gpudoctor.text import chained
from gpudoctor_checks.environment.package_conflict import PackageConflictDetail
from gpudoctor_rules.environment.torch_builds import INDEX, choose_for, install_line

_FLASH = "https://github.com/Dao-AILab/flash-attention/releases"
_BNB = "https://huggingface.co/docs/bitsandbytes/main/en/installation"
_NVML = "https://pypi.org/project/nvidia-ml-py/"
_VISION = "https://github.com/pytorch/vision#installation"


class PackageConflictRule(Rule):
    """The version to install, as one pip line."""

    answers = Code("ENV005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(PackageConflictDetail)
        kind, name = detail.kind, detail.name
        if kind == "requirement":
            yield from self._requirement(finding, patient)
        elif kind == "companion":
            torch, cuda = detail.torch, detail.cuda
            yield (None if cuda else self._both(name, torch, patient)) or self._companion(name, torch, cuda)
        elif kind == "numpy":
            yield self._remedy("numpy", say("install NumPy 1"), ("pip install 'numpy<2'",), sets=(("numpy", "<2"),))
            yield self._remedy(
                "torch", say("install a torch that was built for NumPy 2"), ("pip install 'torch>=2.3'",)
            )
        elif kind == "flash-attn":
            yield self._flash_attention(detail.torch)
        elif kind == "bitsandbytes":
            yield from self._bitsandbytes(detail.override, detail.have)
        elif kind == "two-stacks":
            yield self._two_stacks(finding)
        elif kind == "project":
            asked = detail.asked
            yield self._remedy(
                "project",
                say("create an environment with the versions that the project asks for"),
                ("python -m venv .venv", f".venv/bin/pip install {' '.join(map(repr, asked))}"),
            )
        elif kind == "pynvml":
            yield self._remedy(
                "pynvml",
                say("replace pynvml by nvidia-ml-py: the same module, from NVIDIA"),
                ("pip uninstall -y pynvml", "pip install --force-reinstall nvidia-ml-py"),
                references=(_NVML,),
            )

    def _remedy(
        self,
        word: str,
        title: str,
        steps: tuple[str, ...],
        sets: tuple[tuple[str, str], ...] = (),
        references: tuple[str, ...] = (),
    ) -> Remedy:
        return Remedy(
            id=f"{self.answers}-{word}",
            title=title,
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            sets=sets,
            references=references,
        )

    def _requirement(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(PackageConflictDetail)
        by, name = list(detail.by), detail.name
        together, have = detail.together, detail.have
        torch = patient.packages.version("torch")
        if name == "torch" and torch:
            companions = [item for item in by if item in {"torchvision", "torchaudio"}]
            for item in companions:
                yield self._companion(item, torch, _cuda_of(torch))
            by = [item for item in by if item not in companions]
            if not by:
                return
        elif together or not have:
            target = say("{name}{together}", name=name, together=together)
            yield self._remedy(
                name,
                say("install {requirement}", requirement=target),
                (f"pip install '{target}'", "pip check"),
                sets=((name, together or "any"),),
            )
        if have:
            movers = " ".join(by)
            yield self._remedy(
                f"{name}-requirer",
                say(
                    "move {movers} to a release that takes {package} {version}",
                    movers=chained(by),
                    package=name,
                    version=have,
                ),
                (f"pip install --upgrade {movers} '{name}=={have.partition('+')[0]}'", "pip check"),
            )

    def _both(self, name: str, torch: str, patient: Patient) -> Remedy | None:
        """On a machine with a GPU it is torch that has the wrong build: the CUDA build of both."""
        try:
            patient.gpus  # noqa: B018  # asked for its Unavailable
        except Unavailable:
            return None
        driver = patient.gpu_survey.driver_version
        build = choose_for(patient, "" if isinstance(driver, Absent) else driver, "", torch)
        if build is None:
            return None
        return self._remedy(
            "both",
            say("install torch and {name} for {tag} together: this machine has a GPU", name=name, tag=build.tag),
            (install_line(patient, build, torch),),
            sets=(("torch", build.tag),),
            references=(_VISION,),
        )

    def _companion(self, name: str, torch: str, cuda: str) -> Remedy:
        """The release of torchvision or torchaudio for this torch, of the same CUDA build."""
        tag = f"cu{cuda.replace('.', '')[:3]}" if cuda else "cpu"
        version = _companion_version(name, torch)
        pin = f"{name}=={version}+{tag}" if version else name
        force = "" if version else "--force-reinstall --no-deps "
        return self._remedy(
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

    def _flash_attention(self, torch: str) -> Remedy:
        series = ".".join(str(part) for part in numbers(torch)[:2])
        return self._remedy(
            "flash-attn",
            say("reinstall flash-attn against torch {torch}", torch=torch),
            (
                "pip uninstall -y flash-attn",
                "pip install flash-attn --no-build-isolation --no-cache-dir",
                say(
                    "the wheel's name must say torch{series} and this torch's cxx11abi: {flash}",
                    series=series,
                    flash=_FLASH,
                ),
            ),
            references=(_FLASH,),
        )

    def _bitsandbytes(self, override: str, have: str) -> Iterator[Remedy]:
        if override:
            yield self._remedy(
                "bitsandbytes-variable", "unset BNB_CUDA_VERSION", ("unset BNB_CUDA_VERSION",), references=(_BNB,)
            )
            return
        why = "" if not have else say(" (this one stops at an older CUDA, or starts at a newer)")
        yield self._remedy(
            "bitsandbytes",
            say("install a bitsandbytes that has the library for torch's CUDA{why}", why=why),
            ("pip install --upgrade bitsandbytes", "python -m bitsandbytes"),
            references=(_BNB,),
        )

    def _two_stacks(self, finding: Finding) -> Remedy:
        detail = finding.detail_of(PackageConflictDetail)
        libraries, needed = detail.libraries, detail.needed
        stacks = detail.stacks
        extra = [stack for stack in stacks if stack != needed] if needed else []
        if not extra:
            return self._remedy(
                "two-stacks",
                say("build the environment anew, so that one CUDA major is left"),
                (say("python -m venv .venv && .venv/bin/pip install torch   # then the rest of the stack"),),
            )
        gone = " ".join(f"nvidia-{name}-cu{stack}" for name in libraries for stack in extra)
        back = " ".join(f"nvidia-{name}-cu{needed}" for name in libraries)
        return self._remedy(
            "two-stacks",
            say("keep the libraries for CUDA {needed}, which torch asks for", needed=needed),
            (
                f"pip uninstall -y {gone}",
                say("pip install --force-reinstall --no-deps {packages}   # what the others overwrote", packages=back),
            ),
        )


def _companion_version(name: str, torch: str) -> str:
    """The companion's release; "" where the numbers do not follow torch's."""
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
