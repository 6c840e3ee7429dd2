"""Answers GPU008 recovery-needed."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.recovery_needed import RecoveryNeededDetail
from gpudoctor_rules.hardware import actions


class RecoveryNeededRule(Rule):
    """The action that the driver asks for, and the other GPUs until then."""

    answers = Code("GPU008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        away = actions.leave_out(
            self.answers, finding, patient, say("{subject} needs recovery", subject=finding.subject)
        )
        if away is not None:
            yield away
        action = finding.detail_of(RecoveryNeededDetail).action
        if action == "reset":
            yield actions.reset(self.answers, finding)
        elif action in {"reboot", "bus-reset"}:
            yield actions.reboot(self.answers, power=True)
        elif action == "imex":
            yield actions.inspect(
                self.answers,
                say("recover the IMEX domain"),
                say("systemctl status nvidia-imex; nvidia-imex-ctl -N   # which node has dropped out?"),
                say("sudo systemctl restart nvidia-imex   # on all nodes of the domain"),
            )
        else:
            yield actions.inspect(
                self.answers,
                say("let no peer-to-peer traffic reach {gpu}, and reset it when its job ends", gpu=finding.subject),
                say("Drain the node; let the job that runs on it save a checkpoint and end."),
                "sudo nvidia-smi --gpu-reset -i " + ",".join(str(index) for index in actions.indices(finding)),
            )
