"""The child process that talks to the driver: one JSON record a line, as soon as it is known.

A driver that hangs then hangs this process and nobody else. `ChildFeed` starts it without site hooks of anybody;
it loads the binding and hands over to one of the modules `examining` (once), `sampling` and `watching` (until its
standard input ends: it never outlives its parent). They use the standard library and pynvml only.
"""

import ctypes
import json
import os
import select
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

Emit = Callable[..., None]


def main(job: str, *words: str) -> int:
    """Load the binding, and write the records of a job to standard output."""
    emit = record_writer()
    nvml = _binding(emit)
    return 0 if nvml is None else int(import_module(f"gpudoctor.vitals.nvml.{job}").main(nvml, emit, *words))


def record_writer() -> Emit:
    """Writes records to what was standard output; what the driver's library prints goes elsewhere."""
    pipe = os.fdopen(os.dup(1), "w", encoding="ascii", errors="backslashreplace")
    os.dup2(2, 1)

    def emit(record: str, **values: Any) -> None:
        pipe.write(json.dumps({"record": record, **values}) + "\n")
        pipe.flush()

    return emit


def repeat(interval: float, turn: Callable[[int], None]) -> None:
    """Call `turn` with 0, 1, 2... every so many seconds until standard input ends: the parent is gone."""
    number = 0
    while True:
        began = time.monotonic()
        turn(number)
        number += 1
        ready, _, _ = select.select([0], [], [], max(0.05, interval - (time.monotonic() - began)))
        if ready and not os.read(0, 64):
            return


def _binding(emit: Emit) -> Any:
    """The module pynvml; None where it or the driver's library is not there, which has been written then."""
    try:  # asking for the library first spares machines without one the binding's import
        ctypes.CDLL("libnvidia-ml.so.1")
        import pynvml
    except OSError as error:
        # glibc and musl word it differently; a library that is there and broken is another ailment.
        absent = "No such file" in str(error) and "libnvidia-ml" in str(error)
        emit("failed", state="NO_LIBRARY" if absent else "FAILED", error="" if absent else str(error))
        return None
    except ImportError as error:
        emit("failed", state="BINDING", error=f"nvidia-ml-py cannot be imported ({error})")
        return None
    return pynvml
