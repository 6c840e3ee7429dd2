"""Answers ENV012 nccl-hobbled."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, Setting
from gpudoctor_checks.environment.nccl_hobbled import NcclHobbledDetail

_ENV = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


class NcclHobbledRule(Rule):
    """By cause: a variable unset, one package, another path."""

    answers = Code("ENV012")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kind = finding.detail_of(NcclHobbledDetail).kind
        if kind == "switch":
            yield self._unset(finding)
        elif kind == "packages":
            yield self._one_package(finding, patient)
        elif kind == "shadow":
            yield self._path(finding)

    def _unset(self, finding: Finding) -> Remedy:
        name = finding.detail_of(NcclHobbledDetail).variable
        span = finding.span
        setting = next((item for item in finding.evidence if isinstance(item, Setting)), None)
        if span is not None:
            line = say("delete {path}, line {line}: {statement}", path=span.path, line=span.line, statement=span.text)
        elif setting is not None and setting.path is not None:
            line = say(
                "delete the export of {name} in {setting_path}, line {setting_line}",
                name=name,
                setting_path=setting.path,
                setting_line=setting.line,
            )
        else:
            line = f"unset {name}"
        return Remedy(
            id=f"{self.answers}-unset",
            title=f"unset {name}",
            steps=(line, "hangs without it? look at the paths first: nvidia-smi topo -m; nvidia-smi topo -p2p r"),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=((name, ""),),
            references=(_ENV,),
        )

    def _one_package(self, finding: Finding, patient: Patient) -> Remedy:
        names = list(finding.detail_of(NcclHobbledDetail).packages)
        torch = optional(lambda: patient.torch)
        major = torch.cuda.split(".")[0] if torch is not None and torch.cuda else None
        keep = f"nvidia-nccl-cu{major}" if f"nvidia-nccl-cu{major}" in names else None
        packages = optional(lambda: patient.packages)
        drop = [name for name in names if name != keep] if keep else names
        version = packages.version(keep) if packages is not None and keep else None
        again = f"{keep}=={version}" if keep and version else say("the one that torch requires (pip show torch)")
        return Remedy(
            id=f"{self.answers}-one-nccl",
            title=say("keep {keep} only", keep=keep or say("one NCCL package")),
            steps=(
                f"pip uninstall {' '.join(drop)}",
                say(
                    "pip install --force-reinstall --no-deps {package}   # its files went with the other's",
                    package=again,
                ),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            sets=(("nccl", keep or "one"),),
        )

    def _path(self, finding: Finding) -> Remedy:
        detail = finding.detail_of(NcclHobbledDetail)
        library = detail.library
        variable = detail.variable
        folder = library.rpartition("/")[0]
        return Remedy(
            id=f"{self.answers}-loader-path",
            title=say("take {folder} out of {variable} for the training", folder=folder or library, variable=variable),
            steps=(
                "see which is loaded: LD_DEBUG=libs python -c 'import torch' 2>&1 | grep 'calling init.*nccl'",
                f"env -u {variable} python ...",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
        )
