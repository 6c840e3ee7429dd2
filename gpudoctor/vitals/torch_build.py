"""What the installed torch was built for, from its files; importing it is a last resort, in a child process."""

import mmap
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpudoctor.model import Absent, Reading, Unavailable
from gpudoctor.model.signs.packages import Packages, TorchBuild
from gpudoctor.text import duration
from gpudoctor.vitals.native_build import cuda_of_local, cxx11_abi, plain_assignments, search_library

_ARCHES = re.compile(rb"(?:(?:sm|compute)_\d+[af]?|gfx[0-9a-f]+)(?: (?:(?:sm|compute)_\d+[af]?|gfx[0-9a-f]+))*")


def read_torch(packages: Packages) -> TorchBuild:
    """Facts of the installed torch without importing it; raises `Unavailable` when there is none."""
    found = packages.distributions.get("torch")
    if found is None:
        raise Unavailable(f"torch is not installed in {packages.prefix}")
    folder = Path(found.location) / "torch"
    words = plain_assignments(folder / "version.py")
    version = words.get("__version__") or found.version
    if "cuda" in words:
        cuda = words["cuda"]
    else:
        told = cuda_of_local(version)
        if told is None:
            raise Unavailable(
                f"the files of torch {version} in {found.location} do not say what it was built for"
            )
        cuda = None if told == "cpu" else told
    hip = words.get("hip")
    abi = cxx11_abi(_library(folder, packages.prefix, "libc10.so"))
    return TorchBuild(
        version=version,
        cuda=cuda,
        hip=hip,
        arch_list=_arch_list(folder, packages.prefix) if cuda or hip else (),
        cxx11_abi=Absent("libc10.so does not show it") if abi is None else abi,
        path=str(folder),
    )


def _library(folder: Path, prefix: str, name: str) -> Path:
    """A library of torch: wheels keep it in torch/lib, conda-forge in the environment's lib."""
    inside = folder / "lib" / name
    return inside if inside.exists() else Path(prefix) / "lib" / name


def _arch_list(folder: Path, prefix: str) -> Reading[tuple[str, ...]]:
    """The text behind `torch.cuda.get_arch_list()`: a literal that stands in libtorch_python.so."""
    text = search_library(_library(folder, prefix, "libtorch_python.so"), _find_arches)
    if text is None:
        return Absent("libtorch_python.so does not list the architectures")
    return tuple(text.decode().split())


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchImport:
    """How `import torch` ended in the environment's own interpreter."""

    succeeded: bool
    """Whether it could be imported."""
    words: str
    """What happened, as a clause: the traceback's last line, the signal, the time limit."""
    arch_list: tuple[str, ...] = ()
    """`torch.cuda.get_arch_list()`, when it succeeded."""


_TRIAL = (
    "import sys; sys.path[:] = [place for place in sys.path if place]; "
    "import torch; print('ARCHES', *torch.cuda.get_arch_list()); print('TORCH', torch.__version__)"
)
"""Without the working folder: a file `torch.py` in it is none."""


def import_torch(packages: Packages, limit: float = 60.0) -> TorchImport:
    """Import torch in a child process of that environment, `limit` seconds at most; only when asked for.

    A traceback, a crash and a hang are results in words, never exceptions.
    """
    if "torch" not in packages.distributions:
        raise Unavailable(f"torch is not installed in {packages.prefix}")
    command = [packages.executable, "-c", _TRIAL]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=packages.prefix if Path(packages.prefix).is_dir() else None,
            start_new_session=True,
        )
    except OSError as error:
        return TorchImport(succeeded=False, words=f"{packages.executable} does not start: {error.strerror}")
    try:
        output, complaint = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _end(child)
        return TorchImport(succeeded=False, words=f"import torch did not return within {duration(limit)}")
    return _verdict(child.returncode, output, complaint)


def _end(child: "subprocess.Popen[str]") -> None:
    """Kill the child; one that sits in the driver (D state) cannot be reaped and is left behind."""
    child.kill()
    try:
        child.communicate(timeout=2.0)
    except subprocess.TimeoutExpired:
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()


def _verdict(code: int, output: str, complaint: str) -> TorchImport:
    lines = [line for line in complaint.splitlines() if line.strip()]
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        crash = "crashed with a segmentation fault" if name == "SIGSEGV" else "was killed"
        return TorchImport(succeeded=False, words=f"import torch {crash} ({name})")
    if code != 0:
        last = lines[-1].strip() if lines else f"exit code {code} without a message"
        return TorchImport(succeeded=False, words=f"import torch failed: {last}")
    arches = next((line.split()[1:] for line in output.splitlines() if line.startswith("ARCHES")), [])
    version = next((line.split()[1] for line in output.splitlines() if line.startswith("TORCH ")), "")
    return TorchImport(succeeded=True, words=f"import torch works (torch {version})", arch_list=tuple(arches))
