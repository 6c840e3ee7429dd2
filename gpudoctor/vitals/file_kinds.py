"""What a named file is, by its ending where that says it, else by its content: told once, for every command."""

import re
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import Path

from gpudoctor.model.external_files import open_unpacked, read_head
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.vitals.log_lines import text_of

_HEAD = 8192


class FileKind(Enum):
    """What a file is."""

    SCRIPT = "script"
    JOB = "job script"
    CONFIG = "config"
    FOLDER = "folder"
    LOG = "log"
    """By its ending."""
    KERNEL_LOG = "kernel log"
    FLIGHT = "flight recorder"
    """A dump of torch's flight recorder, and what is named like one and may be cut or empty."""
    SCHEDULER = "scheduler"
    """What a scheduler kept of the job: sacct."""
    PAGE = "page"
    """A page of HTML: no reader takes it."""
    BINARY = "binary"
    OTHER = "other"
    """Text that nothing else fits: it may be a log."""


LEFT = (FileKind.KERNEL_LOG, FileKind.FLIGHT, FileKind.SCHEDULER)
"""What a dead job left beside its log."""
SCRIPTS = {".py", ".pyw", ".ipynb"}
JOBS = {".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".job", ".lsf"}
CONFIGS = {".yaml", ".yml", ".toml"}
_LOGS = {".log", ".out", ".err"}
_SHELL = re.compile(rb"#!.*\b(ba|z|k|da)?sh\b")
_HOSTS = re.compile(rb"(\n|#[^\n]*\n|\S+[ \t]+slots=\d+[^\n]*\n?)+")
_FLIGHT_NAME = re.compile(r"(?i)(?:nccl|comm_lib|hccl|xccl|rccl|flight|fr)_?(?:trace|dump|recorder)?_?rank_?\d+\Z")
_FLIGHT_WORDS = (b"pg_config", b"collective_seq_id", b"profiling_name", b"nccl_comm_state", b"pg_status")
"""Keys of a dump: some of them are in its first bytes."""


def kind_of(path: Path) -> FileKind:
    """The kind of a file. Raises `OSError`."""
    seen = path.stat()
    return _kind_of(path, seen.st_mtime_ns, seen.st_size)


@lru_cache(maxsize=4096)
def _kind_of(path: Path, _written: int, size: int) -> FileKind:
    suffix = path.suffix.lower()
    if suffix in SCRIPTS:
        return FileKind.SCRIPT
    if suffix in JOBS:
        return FileKind.JOB
    if suffix in CONFIGS:
        from gpudoctor.vitals.configs.reading import looks_like_job

        job = suffix in {".yaml", ".yml"} and looks_like_job(path)
        return FileKind.JOB if job else FileKind.CONFIG
    from gpudoctor.vitals.saved_kernel_log import is_kernel_log
    from gpudoctor.vitals.scheduler_records.sacct import is_sacct

    raw = read_head(path, _HEAD)
    unpacked = _unpacked_head(path, raw)
    if _is_flight_dump(path, unpacked):
        return FileKind.FLIGHT
    if size <= SMALL_JSON.most and is_sacct(text_of(raw)):
        return FileKind.SCHEDULER
    # An object of Kubernetes is no config.
    of_cluster = any(word in raw[:4096] for word in (b'"events"', b'"kind"'))
    if suffix == ".json" and raw.lstrip()[:1] == b"{" and not of_cluster:
        return FileKind.CONFIG
    return FileKind.KERNEL_LOG if is_kernel_log(path) else _kind_of_text(suffix, unpacked)


def _kind_of_text(suffix: str, head: bytes) -> FileKind:
    """By its ending, its first line, then directives of Slurm."""
    first = head.split(b"\n", 1)[0]
    if head[:1] == b"\x80" or (b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return FileKind.BINARY
    if re.match(rb"\s*<(?:!doctype )?html\b", head, re.IGNORECASE):
        return FileKind.PAGE
    if suffix in _LOGS:
        return FileKind.LOG
    if first.startswith(b"#!") and b"python" in first:
        return FileKind.SCRIPT
    if _SHELL.match(first) or b"#SBATCH" in head or _HOSTS.fullmatch(head):
        return FileKind.JOB
    return FileKind.LOG if suffix == ".txt" else FileKind.OTHER


def _is_flight_dump(path: Path, head: bytes) -> bool:
    """Whether a file is a flight-recorder dump, or has the name of one and is no text."""
    if head[:2] == b"\x1f\x8b":
        return False
    pickled = len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
    if pickled and any(word in head for word in _FLIGHT_WORDS):
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


def as_left(path: Path) -> FileKind:
    """The kind of a file beside a log: what no other reader takes is a log."""
    kind = kind_of(path)
    if kind is FileKind.JOB and path.suffix.lower() in CONFIGS:
        return FileKind.CONFIG
    if kind is FileKind.JOB and path.suffix.lower() in JOBS and _SHELL.match(read_head(path, 80)):
        return FileKind.OTHER  # what ran, and no output of it
    return kind if kind in (*LEFT, FileKind.SCRIPT, FileKind.CONFIG, FileKind.PAGE) else FileKind.LOG


def is_left_behind(path: Path) -> bool:
    """Whether a file of a folder, whose name is none of a log, is a dump or a record by its content."""
    with suppress(OSError):
        kind = kind_of(path)
        return kind in LEFT and (kind is not FileKind.KERNEL_LOG or not path.suffix)
    return False
