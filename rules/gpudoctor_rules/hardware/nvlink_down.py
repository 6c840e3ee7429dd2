"""Answers GPU006 nvlink-down."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Code, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.nvlink_down import NvlinkDownDetail
from gpudoctor_rules.hardware import actions


class NvlinkDownRule(Rule):
    """The fabric manager, a reset, or the other GPUs."""

    answers = Code("GPU006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        away = actions.leave_out(self.answers, finding, patient, say("{subject} lacks NVLink", subject=finding.subject))
        if away is not None:
            yield away
        if finding.detail_of(NvlinkDownDetail).cause == "fabric":
            return
        yield actions.reset(self.answers, finding)
        yield actions.inspect(
            self.answers,
            say("check the NVLink bridge or baseboard of {gpu}", gpu=finding.subject),
            "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
            say("sudo nvidia-bug-report.sh   # when the port stays off after a reset and a reboot"),
        )
