"""Answers GPU004 xid."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, Severity, Unavailable
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor_checks.hardware.xid import XidDetail
from gpudoctor_rules.hardware import actions

_CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/index.html"


class XidRule(Rule):
    """What the table says about this number, in commands."""

    answers = Code("GPU004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        yield from self._by_action(finding, patient, _log(patient))

    def _by_action(self, finding: Finding, patient: Patient, log: KernelLog) -> Iterator[Remedy]:
        detail = finding.detail_of(XidDetail)
        action = detail.action or "watch"
        if action == "follow":
            action = _demand(detail.recovery)
        if finding.severity is Severity.ERROR:
            away = actions.leave_out(
                self.answers, finding, patient, say("{subject} reported an error", subject=finding.subject)
            )
            if away is not None:
                yield away
        if action in {"reset", "reset-later"}:
            yield actions.reset(self.answers, finding, later=action == "reset-later")
        elif action == "reboot":
            yield actions.reboot(self.answers, power=True)
        elif action == "replace":
            yield actions.replace(self.answers, finding)
        elif action == "check-app":
            yield self._program(finding)
        else:
            yield self._advice(finding, action, log)

    def _program(self, finding: Finding) -> Remedy:
        return Remedy(
            id=f"{self.answers}-program",
            title="find the faulty kernel of the program with compute-sanitizer",
            steps=(
                "CUDA_LAUNCH_BLOCKING=1 python train.py   # the traceback then names the line that launched it",
                "compute-sanitizer --tool memcheck python train.py   # on a small batch: it is slow",
                finding.detail_of(XidDetail).advice or say("Look for an index out of range."),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            references=(_CATALOGUE, "https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html"),
        )

    def _advice(self, finding: Finding, action: str, log: KernelLog) -> Remedy:
        titles = {
            "restart-job": say("restart the job"),
            "update-driver": say("update the driver"),
            "restart-vm": say("restart the virtual machine"),
            "fabric": say("read the fabric manager's log"),
            "inspect": say("check cables, riser and slot"),
        }
        job = action in {"restart-job", "watch"}
        return Remedy(
            id=f"{self.answers}-{action}",
            title=titles.get(action, say("watch whether it comes back")),
            steps=(
                finding.detail_of(XidDetail).advice or say("Look the number up in NVIDIA's Xid catalogue."),
                say("{searched}   # what came before it", searched=log.searched("Xid|NVRM")),
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND if job else Effort.ADMINISTRATOR,
            references=(_CATALOGUE,),
        )


def _log(patient: Patient) -> KernelLog:
    """The log that the finding is of; this machine's where it could not be read, and NVML told of the event."""
    try:
        return patient.kernel_log
    except Unavailable:
        return KernelLog(origin="journalctl -k", messages=())


def _demand(recovery: str) -> str:
    """The action that the driver's own words ask for: `GPU Reset Required`, `Node Reboot Required`..."""
    words = recovery.lower()
    if "reboot" in words:
        return "reboot"
    return "reset" if "reset" in words or "drain" in words else "watch"
