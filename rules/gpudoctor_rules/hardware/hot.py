"""Answers GPU011 hot."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_rules.hardware import actions


class HotRule(Rule):
    """Cooling, and the other GPUs until then."""

    answers = Code("GPU011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        away = actions.leave_out(self.answers, finding, patient, say("{subject} is hot", subject=finding.subject))
        if away is not None:
            yield away
        gpus = ",".join(str(index) for index in actions.indices(finding))
        yield actions.inspect(
            self.answers,
            say("cool {gpu}: fans, air flow, dust, inlet temperature", gpu=finding.subject),
            f"nvidia-smi -i {gpus} --query-gpu=temperature.gpu,fan.speed,power.draw --format=csv -l 5",
            say("If it is hot while idle, fans or air flow have failed."),
            say("If it is hot under load only, leave a slot free beside the card."),
        )
