"""Write a plan: each file whole or not at all, none that has changed meanwhile."""

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say
from gpudoctor.mend.file_text import CannotMend
from gpudoctor.mend.plan import FileMend


def write_plan(files: Sequence[FileMend]) -> list[str]:
    """Write every file; returns the names written.

    All new files are made and flushed beside the old ones before the first is put in place, so a full disk, a
    refused permission or a crash leaves every file either old or new, never between. Raises `IncompleteError`.
    """
    prepared: list[tuple[FileMend, Path, str]] = []
    try:
        for item in files:
            target = Path(os.path.realpath(item.old.path))  # a link stays a link: the file behind it is mended
            _unchanged(item, target)
            prepared.append((item, target, _prepare(item, target)))
        written = []
        for item, target, temporary in prepared:
            _unchanged(item, target)
            os.replace(temporary, target)
            written.append(item.name)
        return written
    except (OSError, CannotMend) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise IncompleteError(
            "--fix stopped: {reason}; files not named in the summary are unchanged", reason=reason
        ) from error
    finally:
        for _, _, temporary in prepared:
            with suppress(OSError):
                os.unlink(temporary)


def _unchanged(item: FileMend, target: Path) -> None:
    if sha256(target.read_bytes()).hexdigest() != item.old.digest:
        raise CannotMend("{name} was changed by another program meanwhile; it was not overwritten", name=item.name)


def _prepare(item: FileMend, target: Path) -> str:
    """The new file beside the old one, with its mode (and owner, where this user may set it), on disk."""
    data = item.old.encode(item.new)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".gpudoctor", dir=target.parent)
    try:
        status = target.stat()
        if not os.access(target, os.W_OK):
            raise PermissionError(13, say("{name} is not writable by this user", name=item.name))
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, stat.S_IMODE(status.st_mode))
        with suppress(OSError, AttributeError):
            os.chown(name, status.st_uid, status.st_gid)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return name
