"""Compiles the fake library; `compiler()` is None where there is none."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

_SOURCE = Path(__file__).with_name("fake_nvml.c")


def compiler() -> str | None:
    """A C compiler: $CC, cc, gcc or clang."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


@cache
def _compiled(kind: str) -> bytes:
    found = compiler()
    assert found is not None, "no C compiler"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"] + ([f"-D{kind}"] if kind else [])
    with TemporaryDirectory() as folder:
        library = Path(folder, "made.so")
        subprocess.run([found, *flags, "-o", str(library), str(_SOURCE)], check=True)
        return library.read_bytes()


def library_folder(folder: Path, *, old_driver: bool = False, kind: str = "") -> Path:
    """A folder under `folder` that holds the fake `libnvidia-ml.so.1`, compiled once.

    `kind`: `OLD_DRIVER`, `DEPRECATED_GONE` or `WIDE_PROCESSES`, see the source.
    """
    kind = "OLD_DRIVER" if old_driver else kind
    place = folder / (kind or "current")
    if not (place / "libnvidia-ml.so.1").exists():
        place.mkdir(parents=True, exist_ok=True)
        # As the driver installs it: the version is in the file's name, the loader's name is a link.
        (place / "libnvidia-ml.so.570.86.15").write_bytes(_compiled(kind))
        (place / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.570.86.15")
    return place
