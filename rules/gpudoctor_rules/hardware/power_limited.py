"""Answers GPU010 power-limited."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.power_limited import PowerLimitedDetail
from gpudoctor_rules.hardware import actions


class PowerLimitedRule(Rule):
    """The default limit, in watts, for the cards that are below it."""

    answers = Code("GPU010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(PowerLimitedDetail)
        watts, ratio = detail.default, detail.ratio
        gpus = ",".join(str(index) for index in actions.indices(finding))
        yield Remedy(
            id=f"{self.answers}-default",
            title=say("set the power limit of GPU {gpus} to {watts:.0f} W", gpus=gpus, watts=watts),
            steps=(
                f"sudo nvidia-smi -i {gpus} -pl {watts:.0f}",
                "First check whether the operator lowered it for the rack's power or cooling.",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ADMINISTRATOR,
            # Speed grows more slowly than power, so the power ratio bounds it; memory-bound work gains nothing.
            effect=Effect(quantity="throughput", low=1.0, high=ratio, unit="x", provenance=EffectOrigin.BOUND),
            sets=(("power.limit", f"{watts:.0f}"),),
        )
