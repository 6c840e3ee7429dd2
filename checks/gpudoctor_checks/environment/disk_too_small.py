"""ENV011 disk-too-small."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import has_purpose, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Resource, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.signs.host import Disk
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import size

_LARGE = (
    "output", say("working folder"), say("Hugging Face cache"), say("Hugging Face data sets"),
    say("torch extension cache"),
)  # fmt: skip


class DiskTooSmall(Check):
    """The disk under the output, a cache or the temporary folder has too little free space.

    What it finds:
        Folders for output, caches or temporary files that are almost full.
    Why it hurts:
        The save fails with "No space left on device" after hours of training. It often leaves a broken file as
        the newest checkpoint. Full caches and temporary folders stop downloads, compilations and loaders.
    How it knows:
        Free space that this user may use, from statvfs.
    False alarms:
        gpudoctor does not see quotas (they can only make it worse). Folders that did not answer in time are
        skipped.
    Remedies:
        Use another folder, or clear the cache.
    References:
        - https://huggingface.co/docs/huggingface_hub/guides/manage-cache
    """

    code = "ENV011"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("free", 2**30, "B", "a convention: the weights of a model of 0.25 billion parameters in fp32",
                  "Below it, an output folder or a cache has little room for even one file."),
        Threshold("temporary_free", 2**28, "B", "a convention: compilers and data tools write some hundred MiB there",
                  "Below it, tools that write temporary files fail."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if not runs_here(patient):
            raise Unavailable(say("the job script runs on another machine"))
        host = patient.host
        seen: set[str] = set()
        for disk in host.disks if has_purpose(patient) else ():
            if disk.mount not in seen and self._is_full(disk):
                seen.add(disk.mount)
                yield self.finding(
                    say(
                        "The disk under the {role} ({disk_path}) has {free} of {disk_total} free.",
                        role=disk.role,
                        disk_path=disk.path,
                        free=size(disk.free),
                        disk_total=size(disk.total),
                    ),
                    evidence=(Measurement("disk_free", disk.free, "B", reproduce=f"df -h '{disk.path}'"),),
                    subject=disk.role,
                    scarce=Resource.DISK,
                    detail=Facts(role=disk.role, path=disk.path, mount=disk.mount),
                )
        if host.silent_folders and not seen:
            silent = host.silent_folders[0]
            raise Unavailable(
                say("{silent_path} cannot be read: {reason}", silent_path=silent.path, reason=silent.reason)
            )

    def _is_full(self, disk: Disk) -> bool:
        if disk.read_only or disk.total == 0:
            return False  # a shared cache that is mounted read-only is nothing to fill; 0 is no real disk
        return disk.free < self.limit("temporary_free" if disk.role not in _LARGE else "free")
