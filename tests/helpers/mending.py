"""Mends a script or config in a scratch folder through the real command, as a user would."""

import atexit
import contextlib
import functools
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.testing import make_host, make_survey


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@functools.cache
def _empty_environment() -> str:
    """A virtual environment without packages, made once: nothing is ever written to it."""
    made = TemporaryDirectory()
    atexit.register(made.cleanup)
    environment = Path(made.name)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(sys.executable)
    (environment / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /nowhere/bin\nversion = 3.11.4\n", encoding="utf-8")
    return made.name


@contextlib.contextmanager
def _no_packages() -> Iterator[None]:
    """An active environment without packages: what is installed beside the tests changes some answers."""
    with patch.dict(os.environ, {"VIRTUAL_ENV": _empty_environment()}):
        yield


_registry = functools.cache(load_registry)
"""Read once: looking through the installed packages is a tenth of a command."""


@contextlib.contextmanager
def known_plugins() -> Iterator[None]:
    """The plugins that were there at the first command; test_third_party.py has a command that looks for them."""
    with patch("gpudoctor.engine.registry.load_registry", _registry):
        yield


@contextlib.contextmanager
def fixed_machine() -> Iterator[None]:
    """32 CPUs and no GPU: what a script is told must not hang on this machine, and nobody waits for its tools."""
    survey = make_survey(driver=DriverState.NO_LIBRARY)
    with (
        patch("gpudoctor.vitals.host.read_host", lambda *_: make_host()),
        patch("gpudoctor.vitals.nvml.survey_gpus", lambda **_: survey),
        patch("gpudoctor.vitals.kernel_log.read_kernel_log", lambda: KernelLog(origin="dmesg", messages=())),
    ):
        yield


def _check(name: str, *flags: str) -> str:
    out = io.StringIO()
    with (
        fixed_machine(),
        _no_packages(),
        known_plugins(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        main(["check", name, "--preview", "--fail-on", "never", "--quiet", *flags])
    return out.getvalue()


def mended(text: str, name: str = "train.py", *, unsafe: bool = True, select: str = "ALL") -> str:
    """The text after `gpudoctor check NAME --fix`."""
    with TemporaryDirectory() as folder, _inside(folder):
        path = Path(name)
        path.write_text(text, encoding="utf-8")
        _check(name, "--fix", "--select", select, *(["--unsafe"] if unsafe else []))
        return path.read_text(encoding="utf-8")


def found(text: str, name: str = "train.py", select: str = "ALL") -> list[str]:
    """Codes found in the text by the whole command."""
    with TemporaryDirectory() as folder, _inside(folder):
        Path(name).write_text(text, encoding="utf-8")
        report = json.loads(_check(name, "--format", "json", "--select", select))
        return [item["code"] for item in report["findings"]]


def gone(code: str, text: str, name: str = "train.py") -> bool:
    """Whether the code is found before the mend, and no longer after it."""
    return code in found(text, name, code) and code not in found(mended(text, name, select=code), name, code)
