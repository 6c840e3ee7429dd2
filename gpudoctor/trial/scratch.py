"""The scratch place: all that the runs of a trial write lies there, shared caches too, and goes with it."""

import getpass
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from gpudoctor.vitals.host.disks import read_mounts
from gpudoctor.vitals.host.proc_tree import Tree

_STACKED = {"overlay", "nfs", "nfs4", "fuse", "lustre", "beegfs", "gpfs", "cifs", "smb3", "9p", "virtiofs",
            "ceph"}  # fmt: skip
"""File systems that cannot hold what is written to an overlay."""
_ROOM = 2 << 30
"""Bytes that should be free where the runs' files go: a checkpoint or two."""


def scratch_folder() -> Path:
    """A new folder for everything that the runs write; where a project hardly ever lies.

    The user's own TMPDIR comes first (a job scheduler's fast disk), then /var/tmp, then what Python calls the
    temporary folder; one that can hold an overlay and has room before one that has not. Raises `OSError`.
    """
    own = os.environ.get("TMPDIR")
    bases = [own] if own and not inside(os.path.realpath(own), "/tmp") else []
    bases += ["/var/tmp", tempfile.gettempdir()]
    usable = [base for base in dict.fromkeys(map(os.path.realpath, bases)) if os.access(base, os.W_OK | os.X_OK)]
    usable.sort(key=_hindrance)
    for base in usable:
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="gpudoctor-trial-", dir=base))
    raise OSError("no temporary folder can be made")


def _hindrance(base: str) -> tuple[bool, bool]:
    """What speaks against a place: no overlay can lie there, it is full."""
    kinds = [kind for path, kind in mounts() if inside(base, path)]
    kind = kinds[-1].partition(".")[0] if kinds else ""
    found = os.statvfs(base)
    return kind in _STACKED, found.f_bavail * found.f_frsize < _ROOM


def remove_scratch(folder: Path) -> None:
    """Delete it, with the folders that an overlay leaves without permissions."""

    for path, names, _ in os.walk(folder):  # from the top: what is opened here is walked next
        for name in names:
            inner = os.path.join(path, name)
            if not os.path.islink(inner):
                with suppress(OSError):
                    os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def inside(path: str, folder: str) -> bool:
    """Whether it is the folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mounts() -> list[tuple[str, str]]:
    """Mount points with their kinds, parents first; of two at one place the later one."""
    found = {mount.point: mount.kind for mount in read_mounts(Tree())}
    return sorted(found.items(), key=lambda item: item[0].rstrip("/").count("/"))


# Caches of libraries: the runs of a trial share what they put there, and none of it stays.
#
# A model that the first run downloads, or a kernel that it compiles, is there for the next one. Under an
# overlay the folders themselves are shared; without one, variables lead to folders of links to what the user
# has.

_FOLDERS = (
    ("XDG_CACHE_HOME", "~/.cache"),
    ("HF_HOME", "~/.cache/huggingface"),
    ("HF_HUB_CACHE", "~/.cache/huggingface/hub"),
    ("HF_DATASETS_CACHE", "~/.cache/huggingface/datasets"),
    ("HF_MODULES_CACHE", "~/.cache/huggingface/modules"),
    ("HF_XET_CACHE", "~/.cache/huggingface/xet"),
    ("TORCH_HOME", "~/.cache/torch"),
    ("TORCH_EXTENSIONS_DIR", "~/.cache/torch_extensions"),
    ("TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor_{user}"),
    ("TRITON_CACHE_DIR", "~/.triton/cache"),
    ("CUDA_CACHE_PATH", "~/.nv/ComputeCache"),
    ("MPLCONFIGDIR", "~/.config/matplotlib"),
)
"""Variable, and the folder where it is not set."""
_LINKED = {"HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "TRITON_CACHE_DIR"}
"""Those whose entries stand for themselves, so that a folder of links serves as one."""
_FRESH = {"HF_XET_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "MPLCONFIGDIR"}
"""Those that begin empty."""


def cache_folders() -> list[str]:
    """Real paths of the caches, none within another; one that holds the working folder is none."""
    here = os.getcwd()
    found: list[str] = []
    for path in sorted({os.path.realpath(path) for _, path in _named()}):
        if not inside(here, path) and not any(inside(path, known) for known in found):
            found.append(path)
    return found


def linked_caches(place: Path) -> dict[str, str]:
    """Variables that lead to folders below `place`, with links to what the user's caches hold."""
    result = {}
    for name, path in _named():
        if name in _LINKED | _FRESH:
            folder = place / name.lower()
            result[name] = str(folder)
            link_entries(path if name in _LINKED else "", folder)
    return result


def link_entries(source: str, folder: Path) -> None:
    """A folder with a link to each entry of another one; hidden ones and locks are left out."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        for name in os.listdir(source) if source else ():
            if not name.startswith(".") and not name.endswith(".lock"):
                with suppress(OSError):
                    (folder / name).symlink_to(os.path.join(source, name))


def _named() -> list[tuple[str, str]]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    found = []
    for name, usual in _FOLDERS:
        path = os.environ.get(name) or usual.format(user=user)
        found.append((name, os.path.abspath(os.path.expanduser(path))))
    return found
