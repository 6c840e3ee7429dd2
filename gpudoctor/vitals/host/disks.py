"""Room in the folders that matter to the job. A network mount that hangs costs a moment, no more."""

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from gpudoctor.model.signs.host import Disk, SilentFolder
from gpudoctor.text import duration
from gpudoctor.vitals.host.mounts import Mount, mount_of
from gpudoctor.vitals.host.proc_tree import Tree

PATIENCE = 2.0
"""Seconds that the folders have, all together: they are asked side by side."""


def usual_folders(variables: Mapping[str, str], working_folder: str) -> list[tuple[str, str]]:
    """Role and path of the folders that every training touches."""
    home = variables.get("HOME") or variables.get("USERPROFILE") or os.path.expanduser("~")
    cache = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hub = variables.get("HF_HOME") or os.path.join(cache, "huggingface")
    hub = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or hub
    temporary = next((variables[name] for name in ("TMPDIR", "TEMP", "TMP") if variables.get(name)), None)
    if temporary is None:
        temporary = "C:\\Windows\\Temp" if sys.platform == "win32" else "/tmp"
    extensions = variables.get("TORCH_EXTENSIONS_DIR") or os.path.join(cache, "torch_extensions")
    folders = [
        ("working folder", working_folder),
        ("Hugging Face cache", hub),
        ("temporary files", temporary),
        ("torch extension cache", extensions),
    ]
    if variables.get("HF_DATASETS_CACHE"):
        folders.insert(2, ("Hugging Face data sets", variables["HF_DATASETS_CACHE"]))
    return [(role, os.path.join(working_folder, os.path.expanduser(path))) for role, path in folders]


def read_disks(
    tree: Tree, mounts: tuple[Mount, ...], folders: Sequence[tuple[str, str]], patience: float = PATIENCE
) -> tuple[tuple[Disk, ...], tuple[SilentFolder, ...]]:
    """The file system under each folder, and the folders that gave no answer in time."""
    wanted = list(dict.fromkeys(folders))
    found: dict[tuple[str, str], Disk | SilentFolder] = {}

    def ask(role: str, path: str) -> None:
        try:
            found[role, path] = _disk(tree, mounts, role, path)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            found[role, path] = SilentFolder(role=role, path=path, reason=reason)

    # Threads, not child processes: a wait for NFS is killable, so a stuck thread ends with the process.
    threads = [threading.Thread(target=ask, args=item, daemon=True) for item in wanted]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = f"no answer in {duration(patience)}"
    answers = [found.get(item) or SilentFolder(role=item[0], path=item[1], reason=late) for item in wanted]
    return (
        tuple(item for item in answers if isinstance(item, Disk)),
        tuple(item for item in answers if isinstance(item, SilentFolder)),
    )


def _disk(tree: Tree, mounts: tuple[Mount, ...], role: str, path: str) -> Disk:
    absolute = os.path.abspath(path)
    existing = absolute
    while not os.path.exists(tree.at(existing)):
        parent = os.path.dirname(existing)
        if parent == existing:
            break
        existing = parent
    space = tree.space(tree.at(existing))
    mount = mount_of(os.path.realpath(existing) if tree.live else existing, mounts)
    return Disk(
        role=role,
        path=absolute,
        mount=mount.point if mount else os.path.splitdrive(existing)[0] or "/",
        kind=mount.kind if mount else "unknown",
        total=space.total,
        free=space.free,
        read_only=mount.read_only if mount else False,
    )
