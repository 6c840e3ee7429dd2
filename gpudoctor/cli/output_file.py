"""Writing what `--output` names: the file is whole, or it is not there."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from gpudoctor.errors import UsageError


def write_file(path: Path, text: str, flag: str = "--output") -> None:
    """Write a report whole or not at all: a new file beside it, then a rename.

    A pipe or a device is written directly. Raises `UsageError` with the system's reason.
    """
    if not text.endswith("\n"):
        text += "\n"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return
        handle, name = tempfile.mkstemp(prefix=".gpudoctor-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
            # mkstemp makes 0600 files; a report has the mode that any new file of this user has.
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path.resolve() if path.is_symlink() else path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise UsageError(f"{flag} {path}: cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
