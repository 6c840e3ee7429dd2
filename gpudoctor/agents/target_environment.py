"""The environment variables of the target: the Python that the user's training uses comes first on PATH.

An agent starts the server in an environment of its own (`uvx`), where `python` is one without torch.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.model import Unavailable
from gpudoctor.model.records import frozen
from gpudoctor.vitals.interpreter import Interpreter, find_interpreter

_USUAL = (".venv", "venv", "env")
"""Folders of a project in which its virtual environment is, as uv, VS Code and PyCharm look for it."""


@frozen
class TargetEnvironment:
    """Where the target's commands run."""

    variables: Mapping[str, str]
    interpreter: Interpreter
    why: str
    """Where the interpreter was found, as a person would say it."""


def target_environment(python: str | None, folder: str, variables: Mapping[str, str]) -> TargetEnvironment:
    """The named interpreter; else the active environment, the project's, ours if it has torch, PATH's.

    `folder` is the target's working folder. Raises `UsageError` for a named one that is no environment.
    """
    python = os.path.join(folder, python) if python and os.sep in python else python
    named, why = _choose(python, folder, variables)
    without_ours = _without_our_programs(variables) if named is None else dict(variables)
    try:
        found = find_interpreter(named, without_ours)
    except Unavailable as reason:
        raise UsageError(f"python {python}: {reason}") from reason
    # The variables as the environment's `activate` leaves them.
    programs = os.path.dirname(os.path.abspath(found.executable))
    parts = [part for part in without_ours.get("PATH", "").split(os.pathsep) if part != programs]
    activated = {**without_ours, "PATH": os.pathsep.join([programs, *parts])}
    activated.pop("PYTHONHOME", None)
    if found.prefix != found.base:
        activated["VIRTUAL_ENV"] = str(found.prefix)
    elif "VIRTUAL_ENV" in activated:
        del activated["VIRTUAL_ENV"]
    return TargetEnvironment(variables=activated, interpreter=found, why=why)


def _choose(python: str | None, folder: str, variables: Mapping[str, str]) -> tuple[str | None, str]:
    if python is not None:
        return python, "named in the call"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        active = variables.get(variable)
        if active and _has_python(Path(active)):
            return active, f"active in the server's environment ({variable})"
    for place in (Path(folder), *Path(folder).parents):
        for name in _USUAL:
            if os.path.isfile(place / name / "pyvenv.cfg") and _has_python(place / name):
                return str(place / name), f"the virtual environment of {place}"
        if os.path.exists(place / ".git"):
            break
    if _own_has_torch():
        return sys.prefix, "the environment of gpudoctor, which has torch"
    return None, "the first Python on PATH"


def _has_python(folder: Path) -> bool:
    return any(os.path.exists(folder / "bin" / name) for name in ("python", "python3"))


def _own_has_torch() -> bool:
    """Whether torch is installed beside gpudoctor; it is not imported."""
    from importlib.util import find_spec

    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):
        return False


def _without_our_programs(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables without the programs of our own virtual environment on PATH, which `uvx` puts first."""
    if sys.prefix == sys.base_prefix:
        return dict(variables)
    ours = os.path.dirname(os.path.abspath(sys.executable))
    parts = variables.get("PATH", "").split(os.pathsep)
    kept = [part for part in parts if os.path.abspath(part) != ours]
    return {**variables, "PATH": os.pathsep.join(kept)}
