"""Compiles the fake library; `compiler()` is None where there is none."""

import os
import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("fake_nvml.c")


def compiler() -> str | None:
    """A C compiler: $CC, cc, gcc or clang."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def library_folder(folder: Path, *, old_driver: bool = False, kind: str = "") -> Path:
    """A folder that holds the fake `libnvidia-ml.so.1`, compiled once under `folder`.

    `kind`: `OLD_DRIVER`, `DEPRECATED_GONE` or `WIDE_PROCESSES`, see the source.
    """
    kind = "OLD_DRIVER" if old_driver else kind
    place = folder / (kind or "current")
    library = place / "libnvidia-ml.so.1"
    if not library.exists():
        place.mkdir(parents=True, exist_ok=True)
        found = compiler()
        assert found is not None, "no C compiler"
        flags = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"] + ([f"-D{kind}"] if kind else [])
        scratch = place / f"building-{os.getpid()}"
        subprocess.run([found, *flags, "-o", str(scratch), str(_SOURCE)], check=True)
        # As the driver installs it: the version is in the file's name, the loader's name is a link.
        scratch.rename(place / "libnvidia-ml.so.570.86.15")
        if not library.is_symlink():
            library.symlink_to("libnvidia-ml.so.570.86.15")
    return place
