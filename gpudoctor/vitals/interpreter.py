"""Which Python environment the training will use, found from files: nothing is run where it can be avoided."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import read_text
from gpudoctor.model.read_limits import PACKAGE_FILE
from gpudoctor.model.records import frozen

ASK_SECONDS = 10.0
"""Longest wait for an interpreter that has to be asked; a cold start on a network disk takes seconds."""

_QUESTION = "import sys,platform;print(sys.prefix,sys.base_prefix,sys.executable,platform.python_version(),sep=chr(10))"


@frozen
class Interpreter:
    """One Python environment, by its layout."""

    prefix: Path
    base: Path
    """The installation that a virtual environment was made from; `prefix` itself when it is none."""
    executable: Path
    """Its interpreter, as a person would call it."""
    version: str
    """`3.11.7`, or `3.11` when the files say no more."""
    system_packages: bool
    """Whether packages of the base installation and of the user are on its path."""

    @property
    def series(self) -> str:
        """`3.11`."""
        return ".".join(self.version.split(".")[:2])


def find_interpreter(python: str | None, environment: Mapping[str, str]) -> Interpreter:
    """The named interpreter or folder; else the active environment; else the first Python on PATH; else ours.

    Raises `Unavailable` when the named one is not a Python environment.
    """
    if python is not None:
        return _named(python, environment)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environment.get(variable)
        found = _from_prefix(Path(folder)) if folder else None
        if found is not None:
            return found
    for candidate in _on_path(environment):
        found = _from_executable(candidate)
        if found is not None:
            return found
    return own_interpreter()


def _named(python: str, environment: Mapping[str, str]) -> Interpreter:
    path = Path(python).expanduser()
    if os.sep not in python and not os.path.exists(path):
        found = next((p for p in _on_path(environment, (python,))), None)
        if found is None:
            raise Unavailable("the interpreter {python} is not on PATH", python=python)
        path = found
    if not os.path.exists(path):
        raise Unavailable("there is no interpreter or environment {python}", python=python)
    answer = _from_prefix(path) if os.path.isdir(path) else _from_executable(path)
    if answer is None:
        raise Unavailable("{python} is neither a Python interpreter nor an environment folder", python=python)
    return answer


def _on_path(environment: Mapping[str, str], names: tuple[str, ...] = ("python", "python3")) -> Iterator[Path]:
    """Executables of these names, folder by folder as the shell looks."""
    for name in names:
        for folder in environment.get("PATH", "").split(os.pathsep):
            candidate = Path(folder, name)
            if folder and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
                yield candidate


def _from_prefix(folder: Path) -> Interpreter | None:
    """An environment by its folder."""
    for name in ("python", "python3"):
        executable = folder / "bin" / name
        if os.path.exists(executable):
            return _from_layout(executable)
    return None


def _from_executable(executable: Path) -> Interpreter | None:
    """An environment by its interpreter; one whose layout tells nothing (a shim, a wrapper) is asked."""
    return _from_layout(executable) or _asked(executable)


def _from_layout(executable: Path) -> Interpreter | None:
    """Read `pyvenv.cfg` beside or above the interpreter, or the installation's folders."""
    for folder in (executable.parent, executable.parent.parent):
        try:
            lines = read_text(folder / "pyvenv.cfg", PACKAGE_FILE, "replace").splitlines()
        except OSError:
            continue
        pairs = (line.partition("=") for line in lines if "=" in line)
        return _virtual(folder, executable, {key.strip().lower(): value.strip() for key, _, value in pairs})
    real = executable.resolve()
    prefix = real.parent.parent
    version = _version_of(prefix, real)
    if version is None:
        return None
    return Interpreter(prefix=prefix, base=prefix, executable=executable, version=version, system_packages=True)


def _virtual(folder: Path, executable: Path, settings: Mapping[str, str]) -> Interpreter | None:
    home = settings.get("home")
    base = Path(home).resolve().parent if home else executable.resolve().parent.parent
    stated = settings.get("version_info") or settings.get("version") or ""
    match = re.match(r"\d+\.\d+(\.\d+)?", stated)
    version = match[0] if match else _version_of(folder, executable.resolve())
    if version is None:
        return None
    return Interpreter(
        prefix=folder,
        base=base,
        executable=executable,
        version=version,
        system_packages=settings.get("include-system-site-packages", "false").lower() == "true",
    )


def _version_of(prefix: Path, executable: Path) -> str | None:
    """The Python version of an installation: its interpreter's name, its library folder."""
    match = re.fullmatch(r"python(\d+\.\d+)[a-z]*", executable.name)
    if match:
        series = match[1]
    else:
        found = [p.parent.name[6:] for p in prefix.glob("lib/python3.*/os.py")] or [
            p.parent.name[6:] for p in prefix.glob("lib/python3.*/site-packages")
        ]
        if len(found) != 1:
            return None
        series = found[0].rstrip("t")
    if Path(sys.base_prefix) == prefix and "{}.{}".format(*sys.version_info[:2]) == series:
        return "{}.{}.{}".format(*sys.version_info[:3])
    return series


def _asked(executable: Path) -> Interpreter | None:
    """Ask the interpreter itself, in a child, isolated from user code."""
    try:
        answer = subprocess.run(
            [str(executable), "-I", "-S", "-c", _QUESTION],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or len(lines) < 4:
        return None
    prefix, base, program, version = lines[:4]
    found = _from_layout(Path(program or executable))
    if found is not None:
        return found
    return Interpreter(
        prefix=Path(prefix),
        base=Path(base),
        executable=Path(program or executable),
        version=version,
        system_packages=prefix == base,
    )


def own_interpreter() -> Interpreter:
    """The interpreter that runs gpudoctor."""
    found = _from_layout(Path(sys.executable)) if sys.executable else None
    return found or Interpreter(
        prefix=Path(sys.prefix),
        base=Path(sys.base_prefix),
        executable=Path(sys.executable),
        version="{}.{}.{}".format(*sys.version_info[:3]),
        system_packages=True,
    )
