"""Which commit a folder is checked out at, from git's own files: no program is started."""

from contextlib import suppress
from pathlib import Path

from gpudoctor.model.external_files import read_head

_DIGITS = 12
_MOST = 1 << 20


def checked_out(folder: Path) -> str:
    """The first 12 digits of the commit of the checkout around `folder`; "" outside one.

    Uncommitted changes are not seen: that needs git itself.
    """
    for place in (folder, *folder.parents):
        with suppress(OSError, ValueError):
            git = place / ".git"
            if not git.is_dir():  # a worktree: a file of that name leads to the folder with HEAD
                git = place / _text(git).removeprefix("gitdir: ")
            head = _text(git / "HEAD")
            if not head.startswith("ref: "):
                return head[:_DIGITS]
            return _commit_of(git, head.removeprefix("ref: "))[:_DIGITS]
    return ""


def _commit_of(git: Path, ref: str) -> str:
    """The commit that a branch is at: in a file of its own, or among the packed ones."""
    with suppress(OSError):
        git = git / _text(git / "commondir")  # a worktree shares the branches of its main checkout
    with suppress(OSError):
        return _text(git / ref)
    for line in _text(git / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _text(path: Path) -> str:
    return read_head(path, _MOST).decode("utf-8", "replace").strip()
