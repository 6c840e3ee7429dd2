"""Tells by its content what a file is that a job left behind beside its logs, whatever its name."""

import os
import re
from enum import Enum
from pathlib import Path

from gpudoctor.model.external_files import open_file, open_unpacked, read_head
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.vitals.log_lines import text_of

_HEAD = 8192
_CONFIG_HEAD = 4096
_LAST_LINES = 5


class LeftKind(Enum):
    """What a file is."""

    LOG = "log"
    """Text that the job printed, and all that nothing else fits."""

    KERNEL_LOG = "kernel log"
    """It is read as a log, too."""

    SNAPSHOT = "snapshot"

    FLIGHT = "flight recorder"
    """A dump of torch's flight recorder, and what is named like one and may be cut or empty."""

    SURVEY = "survey"

    STACKS = "stacks"
    """The output of `py-spy dump --json`; its text is read as a log."""

    SCHEDULER = "scheduler"
    """What a scheduler kept of the job: sacct, scontrol, kubectl."""

    SCRIPT = "script"
    CONFIG = "config"


_SCRIPTS = {".py", ".pyw", ".ipynb"}
_FLIGHT_NAME = re.compile(r"(?i)(?:nccl|comm_lib|hccl|xccl|rccl|flight|fr)_?(?:trace|dump|recorder)?_?rank_?\d+\Z")
_FLIGHT_WORDS = (b"pg_config", b"collective_seq_id", b"profiling_name", b"nccl_comm_state", b"pg_status")
"""Keys of a dump: some of them are in its first bytes."""
_CONFIGS = {".yaml", ".yml", ".toml", ".jsonc"}


def kind_of(path: Path) -> LeftKind:
    """The kind of a file, by its ending where that says it, else by its content. Raises `OSError`."""
    suffix = path.suffix.lower()
    if suffix in _SCRIPTS:
        return LeftKind.SCRIPT
    if suffix in _CONFIGS:
        return LeftKind.CONFIG
    from gpudoctor.vitals.recording.snapshot import is_pickle
    from gpudoctor.vitals.saved_kernel_log import is_kernel_log
    from gpudoctor.vitals.scheduler_records import begins_as_record, is_scheduler_record

    raw = read_head(path, _HEAD)
    if is_flight_dump(path, raw):
        return LeftKind.FLIGHT
    head = text_of(raw)
    if _is_survey(path, head):
        return LeftKind.SURVEY
    if head.lstrip()[:1] == "[" and '"frames"' in head and '"thread' in head:
        return LeftKind.STACKS
    small = path.stat().st_size <= SMALL_JSON.most
    if small and begins_as_record(head) and is_scheduler_record(read_head(path, SMALL_JSON.most)):
        return LeftKind.SCHEDULER
    if is_pickle(path):
        return LeftKind.SNAPSHOT
    if suffix == ".json" and _is_config(raw[:_CONFIG_HEAD]):
        return LeftKind.CONFIG
    return LeftKind.KERNEL_LOG if is_kernel_log(path) else LeftKind.LOG


def is_flight_dump(path: Path, head: bytes) -> bool:
    """Whether a file is a flight-recorder dump, or has the name of one and is no text."""
    head = _unpacked_head(path, head)
    if head[:2] == b"\x1f\x8b":
        return False
    pickled = len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
    listed = head.lstrip()[:1] in (b"{", b"[") and b'"entries"' in head
    if (pickled or listed) and any(word in head for word in _FLIGHT_WORDS):
        return True
    named = _FLIGHT_NAME.search(path.name.removesuffix(".gz")) is not None
    return named and (not head or b"\0" in head or pickled)


def _unpacked_head(path: Path, head: bytes) -> bytes:
    """The first bytes of what gzip has packed; the packed ones if that is damaged."""
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        with open_unpacked(path) as stream:
            return stream.read(_HEAD)
    except OSError:
        return head


def _is_config(head: bytes) -> bool:
    """Whether JSON is a config and no object of Kubernetes."""
    return head.lstrip()[:1] == b"{" and b'"events"' not in head and b'"kind"' not in head


def _is_survey(path: Path, head: str) -> bool:
    """Whether all of a file is of `nvidia-smi -q`: a job script may print that at the top of its log, too."""
    from gpudoctor.vitals.smi_query.blocks import LISTING

    first = next((line for line in head.splitlines() if line.strip()), "")
    if LISTING not in first:
        return False
    with open_file(path) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _HEAD))
        lines = [line for line in text_of(stream.read(_HEAD)).splitlines()[1:] if line.strip()]
    return all(line[:1].isspace() or line.startswith(("GPU ", "===")) for line in lines[-_LAST_LINES:])


def is_left_behind(path: Path) -> bool:
    """Whether a file of a folder, whose name is none of a log, is a dump or a record by its content."""
    try:
        kind = kind_of(path)
        if kind is LeftKind.SNAPSHOT:
            return b"segments" in read_head(path, 256)
        if kind is LeftKind.KERNEL_LOG:
            return path.suffix == ""
        return kind in (LeftKind.SURVEY, LeftKind.STACKS, LeftKind.SCHEDULER, LeftKind.FLIGHT)
    except OSError:
        return False
