"""The folder of a recording: where it is, its manifest, the scripts that ran, and how the command ended."""

import ast
import hashlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gpudoctor import __version__
from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import SCRIPT
from gpudoctor.model.redaction import mask_arguments, mask_text, mask_value
from gpudoctor.probe.wire.frames import private
from gpudoctor.recorder.checkout import checked_out

SCHEMA = "gpudoctor.recording/1"
MANIFEST, END, MACHINE, SCRIPTS = "recording.json", "end.json", "machine.gdr", "scripts.json"

_KEPT = re.compile(
    r"(CUDA|NVIDIA|NCCL|TORCH|PYTORCH|OMP|MKL|OPENBLAS|KMP|ACCELERATE|FSDP|DEEPSPEED|DS|XLA|TRITON|GLOO|UCX|FI|"
    r"SLURM|PBS|OMPI|PMI|ROCR|HIP|HSA|TOKENIZERS|TRANSFORMERS|WANDB|MLFLOW|HF)_|"
    r"(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|MASTER_PORT|PYTHON[A-Z]*|CONDA_DEFAULT_ENV|"
    r"LD_PRELOAD|MALLOC_[A-Z_]*|GOMP_CPU_AFFINITY)$"
)
"""Variables that matter to training; no other is written down."""
_LARGEST_FAULT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """end.json: how the command ended."""

    exit_code: int | None
    """128+n where a signal killed it."""
    signal: str | None
    seconds: float
    stopped_by: str | None
    """`steps`, `seconds` or `interrupt`; None when it ended by itself."""
    oom_kills: int = 0
    kernel: tuple[str, ...] = field(default=())
    lost_bytes: int = 0
    """Bytes of machine samples that could not be written."""
    problems: tuple[str, ...] = field(default=())
    """What failed on our side meanwhile, a sentence each."""
    signals: tuple[tuple[str, float], ...] = field(default=())
    """Signals that we sent to end it, with the seconds since the start."""


def state_folder() -> Path:
    """Where recordings go unasked: the user's state folder (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return root / "gpudoctor" / "recordings"


def new_folder(chosen: str | None) -> tuple[Path, str]:
    """A fresh folder, the user's or one in the state folder, and a sentence where it had to be another one.

    A training must not fail for want of a recording: where a folder cannot be written, a temporary one has to
    do. Raises `UsageError` for a name that is a mistake: a file, a folder that holds a recording already.
    """
    if chosen is None:
        name = f"run-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
        with suppress(OSError, RuntimeError):  # RuntimeError: no home at all
            folder = state_folder() / name
            for place in (folder.parent.parent, folder.parent, folder):
                place.mkdir(mode=0o700, parents=True, exist_ok=place is not folder)
            _try(folder)
            return folder, ""
        return _temporary(f"gpudoctor-{name}-"), ""
    folder = Path(chosen).absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError(say("--recording {chosen}: is a file; name a folder", chosen=chosen))
    if (folder / MANIFEST).exists():
        raise UsageError(say("--recording {chosen}: already contains a recording; name a new folder", chosen=chosen))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _try(folder)
    except OSError as error:
        instead = _temporary("gpudoctor-run-")
        reason = error.strerror or str(error)
        return instead, say(
            "gpudoctor: --recording {chosen}: cannot be written ({reason}); recording to {instead}",
            chosen=chosen,
            reason=reason,
            instead=instead,
        )
    return folder, ""


def _try(folder: Path) -> None:
    """Raise `OSError` for a folder that looks writable and is not: a full disk, a read-only mount."""
    with tempfile.TemporaryFile(dir=folder, prefix=".gpudoctor-") as file:
        file.write(b"x")


def _temporary(prefix: str) -> Path:
    """A folder of the system's temporary ones; one that does not exist where there is no room at all."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError:
        return Path(os.devnull) / "recording"


def write_manifest(folder: Path, command: Sequence[str], settings: Mapping[str, Any]) -> None:
    """recording.json, before the command starts."""
    write_json(
        folder / MANIFEST,
        {
            "schema": SCHEMA,
            "gpudoctor": __version__,
            "command": list(mask_arguments(command)),
            "cwd": mask_text(os.getcwd()),
            "started": datetime.now(timezone.utc).astimezone().isoformat(timespec="milliseconds"),
            "node": platform.node(),
            "python": sys.version.split()[0],
            "commit": checked_out(Path.cwd()),
            "environment": kept_environment(os.environ),
            "settings": dict(settings),
        },
        indent=2,
    )


def kept_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that matter to training, secrets masked."""
    return {name: mask_value(name, value) for name, value in sorted(variables.items()) if _KEPT.match(name)}


def write_end(folder: Path, ending: CommandEnd) -> None:
    """end.json, when the command has ended."""
    write_json(folder / END, asdict(ending), indent=2)
    # What the interpreter wrote of fatal signals names files; a path may hold a token.
    for path in folder.glob("fault-*.txt"):
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= _LARGEST_FAULT:
                text = path.read_text(encoding="utf-8", errors="replace")
                masked = mask_text(text)
                if masked != text:
                    path.write_text(masked, encoding="utf-8")


_TEXT = 3 << 20
"""Bytes of the scripts' texts together, as JSON; beyond them the hash of a file is kept without its text."""


def keep_scripts(folder: Path, command: Sequence[str]) -> None:
    """scripts.json: hash and text of the scripts that a command starts, and of the local modules that they import."""
    if "-m" not in command and not any(map(os.path.isfile, command[1:])):
        return
    from gpudoctor.vitals.build_patient import command_scripts
    from gpudoctor.vitals.source.reader import program_files

    kept: dict[str, list[str | None]] = {}
    left = _TEXT
    for path in program_files(command_scripts(command)):
        data = read_file(path, SCRIPT)
        text = _masked(data) if len(data) <= left else None
        if (size := len(json.dumps(text))) > left:
            text, size = None, 0
        left -= size
        kept[mask_text(path)] = [hashlib.sha256(data).hexdigest(), text]
    write_json(folder / SCRIPTS, {"schema": "gpudoctor.scripts/1", "scripts": kept})


def _masked(data: bytes) -> str | None:
    """The text without its secrets; None where that has other lines, or is no Python any more."""
    try:
        text = data.decode("utf-8-sig")
        masked = mask_text(text)
        if masked != text:
            ast.parse(masked)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return masked if masked.count("\n") == text.count("\n") else None


def write_json(path: Path, value: Mapping[str, Any], indent: int | None = None) -> None:
    """A file whole or not at all; a disk that fills up later costs the file, never the run."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8", opener=private) as stream:
            stream.write(json.dumps(value, indent=indent) + "\n")
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
