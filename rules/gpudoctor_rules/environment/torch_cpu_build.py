"""Answers ENV002 torch-cpu-build."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.environment.torch_cpu_build import TorchCpuBuildDetail
from gpudoctor_rules.environment.torch_builds import INDEX, TABLE, choose_for, install_line

_START = "https://pytorch.org/get-started/locally/"


class TorchCpuBuildRule(Rule):
    """The CUDA build of the installed release that this driver and these cards run."""

    answers = Code("ENV002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(TorchCpuBuildDetail)
        release, driver = detail.torch, detail.driver
        build = choose_for(patient, driver, detail.capabilities, release)
        python = patient.packages.executable
        look = say("{python} -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())'", python=python)
        if build is None:
            yield Remedy(
                id=f"{self.answers}-select",
                title="install a CUDA build of torch: choose it for this driver and this machine",
                steps=(
                    say("choose CUDA and the package manager at {url}", url=_START),
                    say("the wheels are under {url}", url=INDEX),
                    look,
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.COMMAND,
                references=(_START,),
            )
            return
        line = install_line(patient, build, release)
        runs = (
            say("driver {driver} runs it", driver=driver)
            if driver
            else say("any driver from {driver} runs it", driver=build.floor)
        )
        yield Remedy(
            id=f"{self.answers}-install",
            title=say("install the {tag} build of torch ({why})", tag=build.tag, why=runs),
            steps=(line, look),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            sets=(("torch", build.tag),),
            references=(_START, TABLE),
        )
