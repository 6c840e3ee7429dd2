"""Answers ENV010 debug-switch-on."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, Setting
from gpudoctor_checks.environment.debug_switch_on import DebugSwitchOnDetail

_MILDER = {"NCCL_DEBUG": "WARN"}
"""Variables that are worth keeping at a lower level."""


class DebugSwitchOnRule(Rule):
    """Unset it where it was set."""

    answers = Code("ENV010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(DebugSwitchOnDetail)
        del patient
        name = detail.variable
        milder = _MILDER.get(name)
        value = "" if milder is None else milder
        yield Remedy(
            id=f"{self.answers}-unset",
            title=f"export {name}={milder}" if milder else f"unset {name}",
            steps=(_step(finding, name, milder),),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=((name, value),),
            references=(detail.reference,),
        )


def _step(finding: Finding, name: str, milder: str | None) -> str:
    span = finding.span
    if span is not None:
        verb = say('set it to "{milder}"', milder=milder) if milder else say("delete")
        return say(
            "{action} in {path}, line {line}: {statement}",
            action=verb,
            path=span.path,
            line=span.line,
            statement=span.text,
        )
    setting = next((item for item in finding.evidence if isinstance(item, Setting)), None)
    if setting is not None and setting.path is not None:
        verb = (
            say("set {name}={milder}", name=name, milder=milder)
            if milder
            else say("delete the export of {name}", name=name)
        )
        return say("{verb} in {setting_path}", verb=verb, setting_path=setting.path) + (
            say(", line {setting_line}", setting_line=setting.line) if setting.line else ""
        )
    return f"export {name}={milder}" if milder else f"unset {name}"
