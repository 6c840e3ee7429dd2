"""What a folder holds, to compare it before and after."""

import hashlib
import os
from pathlib import Path


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """Of every file and folder: hash, link, mode, time and inode."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        text = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        link = os.readlink(path) if path.is_symlink() else None
        found[str(path)] = text, link, status.st_mode, status.st_mtime_ns, status.st_ino
    return found
