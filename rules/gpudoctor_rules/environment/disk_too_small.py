"""Answers ENV011 disk-too-small."""

import shlex
from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor.model.signs.host import Disk
from gpudoctor.text import size
from gpudoctor_checks.environment.disk_too_small import DiskTooSmallDetail

_CLEARED = {
    "Hugging Face cache": (say("hf cache ls   # huggingface-cli scan-cache before version 1"), "HF_HOME"),
    "Hugging Face data sets": (say("du -sh {{path}}/* | sort -h"), "HF_DATASETS_CACHE"),
    "torch extension cache": (say("rm -r {{path}}   # built again at the next use"), "TORCH_EXTENSIONS_DIR"),
    "temporary files": (say("du -xsh {{path}}/* 2>/dev/null | sort -h | tail"), "TMPDIR"),
}
"""A command that shows or clears what is there, and the variable that moves the folder."""


class DiskTooSmallRule(Rule):
    """Keep fewer checkpoints, move the folder to the disk here with the most room, or clear it."""

    answers = Code("ENV011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(DiskTooSmallDetail)
        role, path = detail.role, detail.path
        if detail.kind == "checkpoints":
            yield from self._keep_fewer(finding)
        roomy = _roomiest(patient, detail.mount)
        if roomy is not None:
            yield self._move(role, roomy)
        yield self._clear(role, path)

    def _keep_fewer(self, finding: Finding) -> Iterator[Remedy]:
        detail = finding.detail_of(DiskTooSmallDetail)
        one, free, keep = detail.one, detail.free, detail.keep
        fits = free // one - 1 if one else 0  # one more is there while the newest is written
        if fits < 1 or (keep and fits >= keep):
            return
        yield Remedy(
            id=f"{self.answers}-keep",
            title=f"save_total_limit={fits}",
            steps=(
                say(
                    "save_total_limit={limit}: {checkpoints} checkpoints of {size} fit into {free}",
                    limit=fits,
                    checkpoints=fits + 1,
                    size=size(one),
                    free=size(free),
                ),
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=(("save_total_limit", str(fits)),),
            references=("https://huggingface.co/docs/transformers/main_classes/trainer",),
        )

    def _move(self, role: str, disk: Disk) -> Remedy:
        variable = _CLEARED.get(role, ("", ""))[1]
        there = shlex.quote(disk.mount.rstrip("/") + "/...")
        line = (
            f"export {variable}={there}"
            if variable
            else say("write the output to a folder under {mount}", mount=disk.mount)
        )
        return Remedy(
            id=f"{self.answers}-move",
            title=say("put it on {mount}, which has {free} free", mount=disk.mount, free=size(disk.free)),
            steps=(line,),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SETTING,
        )

    def _clear(self, role: str, path: str) -> Remedy:
        command = _CLEARED.get(role, ("du -xsh {path}/* | sort -h | tail", ""))[0]
        return Remedy(
            id=f"{self.answers}-clear",
            title=say("make room under {path}", path=path),
            steps=(command.replace("{path}", shlex.quote(path)),),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
        )


def _roomiest(patient: Patient, mount: str) -> Disk | None:
    """The disk with the most room among those that the examination saw, if it has clearly more."""
    host = optional(lambda: patient.host)
    others = [disk for disk in (host.disks if host else ()) if disk.mount != mount and not disk.read_only]
    best = max(others, key=lambda disk: disk.free, default=None)
    return best if best is not None and best.free > 10 * (1 << 30) and best.kind != "tmpfs" else None
