"""The child process that talks to the driver: one JSON record a line, as soon as it is known.

Started by `survey` as a file with `python -I -S` (no site hooks of anybody, a fast start); its arguments are
the entries of the module search path. Whoever reads the pipe can tell from the last record where a driver
hung or crashed. Standard library and pynvml only.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable
from typing import Any

Emit = Callable[..., None]


def main(search_path: list[str]) -> int:
    """Write the records `driver`, `gpu`/`lost` (one a GPU), `p2p`, `done` to standard output."""
    sys.path[:0] = search_path
    emit = record_writer()
    pynvml = binding(emit)
    if pynvml is None:
        return 0
    try:
        _examine(pynvml, emit)
    except Exception as error:  # noqa: BLE001  # a fault of ours or of the binding: the parent must tell it from a crash
        emit("fault", error=f"{type(error).__name__}: {error}")
        return 1
    return 0


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


def binding(emit: Emit) -> Any:
    """The module pynvml; None where it or the driver's library is not there, which has been written then."""
    if not _loadable(emit):
        return None
    try:
        import pynvml
    except ImportError as error:
        emit("failed", state="BINDING", error=f"nvidia-ml-py cannot be imported ({error})")
        return None
    return pynvml


def _loadable(emit: Emit) -> bool:
    """Whether the driver's library is there: asking first spares machines without one the binding's import."""
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        # glibc and musl word it differently; a library that is there and broken is another ailment.
        absent = "No such file" in str(error) and "libnvidia-ml" in str(error)
        emit("failed", state="NO_LIBRARY" if absent else "FAILED", error="" if absent else str(error))
        return False
    return True


def _examine(nvml: Any, emit: Emit) -> None:
    from gpudoctor.vitals.nvml.client import (
        DRIVER_NOT_LOADED,
        LIBRARY_NOT_FOUND,
        NO_PERMISSION,
        VERSION_MISMATCH,
        NotSupported,
        NvmlClient,
    )
    from gpudoctor.vitals.nvml.reading import plain

    emit("stage", stage="the driver was being initialised", library_version=_library_version())
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        state = {
            DRIVER_NOT_LOADED: "NOT_LOADED",
            LIBRARY_NOT_FOUND: "NO_LIBRARY",
            NO_PERMISSION: "NO_PERMISSION",
            VERSION_MISMATCH: "MISMATCH",
        }.get(getattr(error, "value", 0), "FAILED")
        emit("failed", state=state, error=str(error), library_version=_library_version())
        return
    funnel = NvmlClient(nvml)
    cuda = funnel.read("nvmlSystemGetCudaDriverVersion_v2")
    count = funnel.read("nvmlDeviceGetCount")
    emit(
        "driver",
        version=plain(funnel.read("nvmlSystemGetDriverVersion")),
        cuda=plain(cuda, lambda number: [number // 1000, number % 1000 // 10]),
        count=plain(count),
    )
    if not isinstance(count, NotSupported):
        _walk(nvml, funnel, count, emit)
    emit("done")


def _walk(nvml: Any, funnel: Any, count: int, emit: Emit) -> None:
    from gpudoctor.vitals.nvml.client import NO_PERMISSION, GpuLost
    from gpudoctor.vitals.nvml.reading import read_gpu

    for index in range(count):
        emit("stage", stage=f"GPU {index} was being read", index=index)
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            emit("gpu", **read_gpu(funnel, handle, index))
        except GpuLost as error:
            emit("lost", index=index, error=str(error), cause="reset required" if error.code == 16 else "lost")
        except nvml.NVMLError as error:
            code = getattr(error, "value", 999)
            cause = {15: "lost", 16: "reset required", NO_PERMISSION: "no permission"}.get(code, "unknown")
            emit("lost", index=index, error=str(error), cause=cause)


def _library_version() -> str | None:
    """The loaded library's version, from the name of its file: it must do when NVML will not start."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            names = {line.rsplit("/", 1)[-1].strip() for line in maps if "libnvidia-ml.so." in line}
    except OSError:
        return None
    versions = [name.partition(".so.")[2] for name in names]
    return next((version for version in sorted(versions) if version.count(".") >= 1), None)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
