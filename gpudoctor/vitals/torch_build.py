"""What the installed torch was built for, from its files."""

import mmap
import re
from pathlib import Path

from gpudoctor.model import Absent, Unavailable
from gpudoctor.model.signs.packages import Packages, TorchBuild
from gpudoctor.vitals.native_build import cuda_of_local, cxx11_abi, plain_assignments, search_library

_ARCHES = re.compile(rb"(?:(?:sm|compute)_\d+[af]?|gfx[0-9a-f]+)(?: (?:(?:sm|compute)_\d+[af]?|gfx[0-9a-f]+))*")


def read_torch(packages: Packages) -> TorchBuild:
    """Facts of the installed torch without importing it; raises `Unavailable` when there is none."""
    found = packages.distributions.get("torch")
    if found is None:
        raise Unavailable("torch is not installed in {prefix}", prefix=packages.prefix)
    folder = Path(found.location) / "torch"
    words = plain_assignments(folder / "version.py")
    version = words.get("__version__") or found.version
    if "cuda" in words:
        cuda = words["cuda"]
    else:
        told = cuda_of_local(version)
        if told is None:
            raise Unavailable(
                "the files of torch {version} in {location} do not say what it was built for",
                version=version,
                location=found.location,
            )
        cuda = None if told == "cpu" else told
    hip = words.get("hip")
    abi = cxx11_abi(_library(folder, packages.prefix, "libc10.so"))
    # The text behind `torch.cuda.get_arch_list()`: a literal that stands in libtorch_python.so.
    python = _library(folder, packages.prefix, "libtorch_python.so")
    listed = search_library(python, _find_arches) if cuda or hip else b""
    return TorchBuild(
        version=version,
        cuda=cuda,
        hip=hip,
        arch_list=Absent("libtorch_python.so does not list the architectures")
        if listed is None
        else tuple(listed.decode().split()),
        cxx11_abi=Absent("libc10.so does not show it") if abi is None else abi,
        path=str(folder),
    )


def _library(folder: Path, prefix: str, name: str) -> Path:
    """A library of torch: wheels keep it in torch/lib, conda-forge in the environment's lib."""
    inside = folder / "lib" / name
    return inside if inside.exists() else Path(prefix) / "lib" / name


def _find_arches(data: mmap.mmap) -> bytes | None:
    """The longest text between two NULs that is a list of architectures and nothing else."""
    best: bytes | None = None
    for start in (b"\0sm_", b"\0compute_", b"\0gfx"):
        place = data.find(start)
        while place >= 0:
            end = data.find(b"\0", place + 1, place + 1024)
            text = data[place + 1 : end] if end > 0 else b""
            if _ARCHES.fullmatch(text) and len(text) > len(best or b""):
                best = text
            place = data.find(start, place + 1)
    return best
