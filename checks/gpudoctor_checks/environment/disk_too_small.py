"""ENV011 disk-too-small."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.workload import has_purpose, optional, runs_here
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Patient,
    Reads,
    Resource,
    Severity,
    Threshold,
)
from gpudoctor.model.evidence import Evidence, Measurement
from gpudoctor.model.signs.host import Disk
from gpudoctor.model.signs.source import Call, Known, Source
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import size

_OUTPUTS = ("output", say("working folder"))
_CACHES = (say("Hugging Face cache"), say("Hugging Face data sets"), say("torch extension cache"))
_PARAMETERS = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)[bB](?![a-zA-Z])")
_ADAPTERS = ("peft.get_peft_model", "peft.LoraConfig", "peft.PeftModel")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskTooSmallDetail(Detail):
    """What the rule reads."""

    kind: str
    """`full` or `checkpoints`."""
    role: str
    """What the folder is for."""
    path: str
    mount: str
    one: int = 0
    """Bytes of a checkpoint."""
    free: int = 0
    """Bytes."""
    keep: int = 0
    """Checkpoints that are kept; 0 is all."""


class DiskTooSmall(Check):
    """The disk under the output, a cache or the temporary folder has too little free space.

    What it finds:
        Less free space than the run's checkpoints need, if the model's size is in its name (`Llama-2-7b`).
        Folders for output, caches or temporary files that are almost full.
    Why it hurts:
        The save fails with "No space left on device" after hours of training. It often leaves a broken file as
        the newest checkpoint. Full caches and temporary folders stop downloads, compilations and loaders.
    How it knows:
        Free space that this user may use, from statvfs. A checkpoint of full fine-tuning with AdamW counts 16
        bytes per parameter; a save with adapters is not counted. save_total_limit is the number of checkpoints
        kept. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        gpudoctor does not see quotas (they can only make it worse). Checkpoints that go to object storage,
        sharded or without optimizer state take less. Folders that did not answer in time are skipped.
    Remedies:
        Set save_total_limit to the number that fits, use another folder, or clear the cache.
    References:
        - https://huggingface.co/docs/transformers/main_classes/trainer (save_total_limit)
        - https://huggingface.co/docs/huggingface_hub/guides/manage-cache
        - https://arxiv.org/abs/1910.02054 (16 bytes a parameter in mixed precision with Adam)
    """

    code = Code("ENV011")
    name = "disk-too-small"
    reads = frozenset({Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE, Reads.LOG})
    severity = Severity.WARNING
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("output_free", 2**30, "B", "a convention: the weights of a model of 0.25 billion parameters in fp32",
                  "Below it, the output folder has little room for even one checkpoint."),
        Threshold("cache_free", 2**30, "B", "a convention: one file of a small model or a compiled extension",
                  "Below it, a download or a compilation fails."),
        Threshold("temporary_free", 2**28, "B", "a convention: compilers and data tools write some hundred MiB there",
                  "Below it, tools that write temporary files fail."),
        Threshold("checkpoint_bytes", 16, "B",
                  "arXiv:1910.02054, mixed precision with Adam: weights, master weights, two moments",
                  "Bytes per parameter in a checkpoint that can be resumed."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if not runs_here(patient):
            raise Unavailable(say("the job script runs on another machine, whose disks gpudoctor cannot see from here"))
        host = patient.host
        seen: set[str] = set()
        if has_purpose(patient):
            for finding in self._checkpoints(patient, host.disks):
                seen.add(finding.detail_of(DiskTooSmallDetail).mount)
                yield finding
            for disk in host.disks:
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
                        evidence=(_shown(disk),),
                        confidence=Confidence.CONFIRMED,
                        subject=disk.role,
                        scarce=frozenset({Resource.DISK}),
                        detail=DiskTooSmallDetail(kind="full", role=disk.role, path=disk.path, mount=disk.mount),
                    )
        if host.silent_folders and not seen:
            silent = host.silent_folders[0]
            raise Unavailable(
                say(
                    "{silent_path} ({role}) cannot be read: {reason}",
                    silent_path=silent.path,
                    role=silent.role,
                    reason=silent.reason,
                )
            )

    def _is_full(self, disk: Disk) -> bool:
        if disk.read_only or disk.total == 0:
            return False  # a shared cache that is mounted read-only is nothing to fill; 0 is no real disk
        if disk.role in _OUTPUTS:
            return disk.free < self.limit("output_free")
        return disk.free < self.limit("cache_free" if disk.role in _CACHES else "temporary_free")

    def _checkpoints(self, patient: Patient, disks: tuple[Disk, ...]) -> Iterator[Finding]:
        """What the run keeps against the room under the output."""
        disk = next((disk for role in _OUTPUTS for disk in disks if disk.role == role), None)
        source = optional(lambda: patient.source)
        if disk is None or source is None or not source.trains:
            return
        model = _largest_model(source)
        if model is None or any(call.name.startswith(_ADAPTERS) for script in source.scripts for call in script.calls):
            return
        billions, call = model
        keep, evidence = _kept(patient, source)
        one = int(billions * 1e9 * self.limit("checkpoint_bytes"))
        # The newest is written before the oldest is deleted.
        need = one * ((keep or 1) + 1)
        if disk.free >= need:
            return
        yield self.finding(
            say(
                "A checkpoint of {billions:g} billion parameters with AdamW takes about {size} ({kept}), and "
                "{free} is free under the {role} ({path}).",
                billions=billions,
                size=size(one),
                kept=say("{keep} kept", keep=keep) if keep else say("without a limit on their number"),
                free=size(disk.free),
                role=disk.role,
                path=disk.path,
            ),
            evidence=(_shown(disk), call.span, *evidence),
            confidence=Confidence.SUSPECTED,
            cost=Cost(bytes=need - disk.free),
            subject=disk.role,
            scarce=frozenset({Resource.DISK}),
            detail=DiskTooSmallDetail(
                kind="checkpoints",
                role=disk.role,
                path=disk.path,
                mount=disk.mount,
                one=one,
                free=disk.free,
                keep=keep or 0,
            ),
        )


def _shown(disk: Disk) -> Measurement:
    return Measurement("disk_free", disk.free, "B", reproduce=f"df -h '{disk.path}'")


def _largest_model(source: Source) -> tuple[float, Call] | None:
    """Billions of parameters by the name of the largest model loaded, and the call."""
    found = []
    for script in source.scripts:
        for call in script.calls_to(".from_pretrained"):
            name = call.argument("pretrained_model_name_or_path", 0)
            if "Tokenizer" in call.name or not isinstance(name, Known) or not isinstance(name.value, str):
                continue
            last = name.value.rstrip("/").rpartition("/")[2]
            sizes = [float(text) for text in _PARAMETERS.findall(last.replace("-", " ").replace("_", " "))]
            if len(sizes) == 1 and 0 < sizes[0] < 2000:  # "8x7B" and the like are left alone
                found.append((sizes[0], call))
    return max(found, key=lambda item: item[0], default=None)


def _kept(patient: Patient, source: Source) -> tuple[int | None, tuple[Evidence, ...]]:
    """save_total_limit of the config or of the script; None when there is none."""
    configs = optional(lambda: patient.configs)
    for meaning in configs.canonical("save_total_limit") if configs is not None else ():
        if meaning.number is not None and meaning.number > 0:
            return int(meaning.number), (meaning.setting,)
    for script in source.scripts:
        for call in script.calls:
            value = call.keywords.get("save_total_limit")
            if isinstance(value, Known) and isinstance(value.value, int) and value.value > 0:
                return value.value, (call.span,)
    return None, ()
