"""Answers GPU002 throttled."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.throttled import ThrottledDetail
from gpudoctor_rules.hardware import actions


class ThrottledRule(Rule):
    """Cooling or power by the reason that the driver names, and the other GPUs until then."""

    answers = Code("GPU002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        away = actions.leave_out(self.answers, finding, patient, say("{subject} slows down", subject=finding.subject))
        if away is not None:
            yield away
        if finding.detail_of(ThrottledDetail).heat:
            yield actions.inspect(
                self.answers,
                say("cool {gpu}: fans, air flow, dust, inlet temperature", gpu=finding.subject),
                say("nvidia-smi -q -d TEMPERATURE,PERFORMANCE   # under load"),
                say("Compare inlet temperature and fan speeds with a healthy node (ipmitool sdr type Temperature)."),
            )
        else:
            yield actions.inspect(
                self.answers,
                say("check the power supply of {gpu}", gpu=finding.subject),
                say("nvidia-smi -q -d POWER,PERFORMANCE   # under load"),
                say(
                    "Check power cables, the supplies' redundancy and a power cap set in the BMC "
                    "(ipmitool dcmi power get_limit)."
                ),
            )
