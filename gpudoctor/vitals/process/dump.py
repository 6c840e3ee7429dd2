"""One stack dump by py-spy: never stopping the target, what went wrong told by its words, never by its code.

`--nonblocking` reads the memory of the running process (a blocking dump stops every thread of it for the time
that it takes: py-spy#872). Such a read races with the interpreter, so a dump may fail or be cut short.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.process import Frame
from gpudoctor.text import duration

PATIENCE = 5.0
"""Seconds for one dump; it takes 10 to 30 ms."""


class DumpError(Enum):
    """Why there is no dump."""

    NO_PYSPY = "py-spy is not installed"
    FORBIDDEN = "no permission to read its memory"
    GONE = "the process has ended"
    NOT_PYTHON = "py-spy finds no Python in it"
    RACED = "the process changed while it was read"
    SLOW = "py-spy did not answer"


@frozen
class ThreadStack:
    """One thread of a dump."""

    name: str
    """"" where py-spy does not know it (Python 3.10 and before, non-blocking)."""
    main: bool
    active: bool
    frames: tuple[Frame, ...]
    """Innermost first."""


@frozen
class Dump:
    """What one call of py-spy said."""

    threads: tuple[ThreadStack, ...] = ()
    error: DumpError | None = None
    words: str = ""
    """Py-spy's own words about an error."""
    cpu: float = field(default=0.0, compare=False)
    """Seconds of CPU time that it took."""

    @property
    def main(self) -> ThreadStack | None:
        """The main thread."""
        return next((thread for thread in self.threads if thread.main), None)


def find_pyspy() -> str | None:
    """The py-spy command: the one installed beside us, or one on the path."""
    beside = Path(sys.executable).with_name("py-spy") if sys.executable else None
    if beside and os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("py-spy")


def dump(pid: int, pyspy: str | None, patience: float = PATIENCE) -> Dump:
    """The stacks of one process now."""
    if pyspy is None:
        return Dump(error=DumpError.NO_PYSPY)
    before = _children_cpu()
    try:
        child = subprocess.Popen(
            [pyspy, "dump", "--nonblocking", "--json", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "RUST_BACKTRACE": "0"},  # its words, not its own stack
        )
    except OSError as error:
        return Dump(error=DumpError.NO_PYSPY, words=str(error))
    try:
        out, err = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        child.terminate()  # never SIGKILL: a sampler killed at the wrong moment can leave its target stopped
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=1.0)
        return Dump(error=DumpError.SLOW, words=say("no answer within {patience}", patience=duration(patience)))
    cost = max(0.0, _children_cpu() - before)
    if child.returncode != 0:
        words = err.decode(errors="replace").strip()
        return Dump(error=_meaning(words), words=words, cpu=cost)
    try:
        threads = tuple(thread_of(item) for item in json.loads(out))
    except (ValueError, KeyError, TypeError) as error:
        return Dump(error=DumpError.RACED, words=str(error), cpu=cost)
    return Dump(threads=threads, cpu=cost)


def _meaning(words: str) -> DumpError:
    text = words.lower()
    if "permission denied" in text or "operation not permitted" in text or "(os error 13)" in text:
        return DumpError.FORBIDDEN
    if "no such process" in text or "(os error 3)" in text or "check that the process is running" in text:
        return DumpError.GONE
    if "failed to find python version" in text or ("python interpreter" in text and "find" in text):
        return DumpError.NOT_PYTHON
    return DumpError.RACED


def thread_of(item: dict[str, Any]) -> ThreadStack:
    """A thread of py-spy's JSON. Raises `KeyError` and `TypeError` for what is none."""
    frames = tuple(
        Frame(name=str(frame["name"]), path=str(frame["filename"]), line=int(frame["line"])) for frame in item["frames"]
    )
    name = item.get("thread_name") or ""
    main = item.get("os_thread_id") == item.get("pid") if item.get("os_thread_id") else False
    # Without thread ids (a pid namespace) the outermost frame tells the main thread.
    outermost = bool(frames) and frames[-1].name in ("<module>", "_run_module_as_main")
    return ThreadStack(
        name=name, main=main or name == "MainThread" or outermost, active=bool(item.get("active")), frames=frames
    )


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
