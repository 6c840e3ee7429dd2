"""Answers GPU006 nvlink-down."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.nvlink_down import NvlinkDownDetail
from gpudoctor_rules.hardware import actions


class NvlinkDownRule(Rule):
    """The fabric manager, a reset, or the other GPUs."""

    answers = Code("GPU006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        away = actions.leave_out(self.answers, finding, patient, f"{finding.subject} lacks NVLink")
        if away is not None:
            yield away
        if finding.detail_of(NvlinkDownDetail).cause == "fabric":
            yield Remedy(
                id=f"{self.answers}-fabric-manager",
                title="start nvidia-fabricmanager in the driver's own version",
                steps=(
                    "systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager -b | tail -50",
                    "cat /proc/driver/nvidia/version; nv-fabricmanager --version   # must be equal",
                    "sudo systemctl enable --now nvidia-fabricmanager",
                    "nvidia-smi -q | grep -A 4 Fabric   # right after a boot it takes some minutes",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ADMINISTRATOR,
                references=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
            )
            return
        yield actions.reset(self.answers, finding)
        yield actions.inspect(
            self.answers,
            f"check the NVLink bridge or baseboard of {finding.subject}",
            "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
            "sudo nvidia-bug-report.sh   # when the port stays off after a reset and a reboot",
        )
