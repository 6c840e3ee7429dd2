"""Answers ENV004 gpu-arch-unsupported."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.environment.gpu_arch_unsupported import GpuArchUnsupportedDetail
from gpudoctor_rules.environment.torch_builds import TABLE, Build, builds, choose_for, install_line

_SOURCE = "https://github.com/pytorch/pytorch#from-source"


class GpuArchUnsupportedRule(Rule):
    """A build that has the architecture; where only the driver stands in the way, the driver too."""

    answers = Code("ENV004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(GpuArchUnsupportedDetail)
        card, release = detail.capabilities, detail.torch
        driver = detail.driver
        build = choose_for(patient, driver, card, release)
        if build is not None:
            yield self._install(patient, build, release, card, say("driver {driver} runs it", driver=driver))
            return
        unbound = choose_for(patient, "", card, release)
        if unbound is not None:
            yield self._driver(unbound, driver, card)
            return
        newest = builds()[-1]
        yield Remedy(
            id=f"{self.answers}-source",
            title=say(
                "build torch from source: no published build up to {torch} has code for {card}",
                torch=newest.torch,
                card=card,
            ),
            steps=(
                say("TORCH_CUDA_ARCH_LIST={card} as in {guide}", card=card, guide=_SOURCE),
                say("or look for a newer release: {table}", table=TABLE),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.REWRITE,
            references=(_SOURCE, TABLE),
        )

    def _install(self, patient: Patient, build: Build, release: str, card: str, why: str) -> Remedy:
        return Remedy(
            id=f"{self.answers}-install",
            title=say(
                "install torch {torch}+{tag}, which has code for capability {card} ({why})",
                torch=build.torch,
                tag=build.tag,
                card=card,
                why=why,
            ),
            steps=(
                install_line(patient, build, release),
                say(
                    "{executable} -c 'import torch; print(torch.cuda.get_arch_list())'",
                    executable=patient.packages.executable,
                ),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            sets=(("torch", build.tag),),
            references=(TABLE,),
        )

    def _driver(self, build: Build, driver: str, card: str) -> Remedy:
        return Remedy(
            id=f"{self.answers}-driver",
            title=say(
                "ask for driver {floor} or newer: builds with code for capability {card} need it",
                floor=build.floor,
                card=card,
            ),
            steps=(
                say(
                    "torch {torch}+{tag} has code for it; driver {driver} is below {floor}",
                    torch=build.torch,
                    tag=build.tag,
                    driver=driver,
                    floor=build.floor,
                ),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ADMINISTRATOR,
            references=(TABLE,),
        )
