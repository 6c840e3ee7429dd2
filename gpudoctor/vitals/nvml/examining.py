"""Reads the driver and every GPU once, in the child process. The last record tells where a driver hung or crashed."""

from typing import Any

from gpudoctor.vitals.nvml.child import Emit
from gpudoctor.vitals.nvml.client import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    RESET_REQUIRED,
    VERSION_MISMATCH,
    GpuLost,
    NotSupported,
    NvmlClient,
)
from gpudoctor.vitals.nvml.reading import plain, read_gpu

_STATES = {
    DRIVER_NOT_LOADED: "NOT_LOADED",
    LIBRARY_NOT_FOUND: "NO_LIBRARY",
    NO_PERMISSION: "NO_PERMISSION",
    VERSION_MISMATCH: "MISMATCH",
}
_CAUSES = {GPU_IS_LOST: "lost", RESET_REQUIRED: "reset required", NO_PERMISSION: "no permission"}


def main(nvml: Any, emit: Emit) -> int:
    """Write the records `driver`, `gpu`/`lost` (one a GPU), `done`."""
    try:
        _examine(nvml, emit)
    except Exception as error:  # noqa: BLE001  # a fault of ours or of the binding: the parent must tell it from a crash
        emit("fault", error=f"{type(error).__name__}: {error}")
        return 1
    return 0


def _examine(nvml: Any, emit: Emit) -> None:
    emit("stage", stage="the driver was being initialised", library_version=_library_version())
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        state = _STATES.get(getattr(error, "value", 0), "FAILED")
        emit("failed", state=state, error=str(error), library_version=_library_version())
        return
    client = NvmlClient(nvml)
    count = client.read("nvmlDeviceGetCount")
    emit(
        "driver",
        version=plain(client.read("nvmlSystemGetDriverVersion")),
        cuda=plain(
            client.read("nvmlSystemGetCudaDriverVersion_v2"), lambda number: [number // 1000, number % 1000 // 10]
        ),
        count=plain(count),
    )
    for index in range(0 if isinstance(count, NotSupported) else count):
        emit("stage", stage=f"GPU {index} was being read", index=index)
        try:
            emit("gpu", **read_gpu(client, nvml.nvmlDeviceGetHandleByIndex(index), index))
        except (GpuLost, nvml.NVMLError) as error:
            emit("lost", index=index, error=str(error), cause=_CAUSES.get(getattr(error, "value", 999), "unknown"))
    emit("done")


def _library_version() -> str | None:
    """The loaded library's version, from the name of its file: it must do when NVML will not start."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            names = {line.rsplit("/", 1)[-1].strip() for line in maps if "libnvidia-ml.so." in line}
    except OSError:
        return None
    versions = [name.partition(".so.")[2] for name in names]
    return next((version for version in sorted(versions) if version.count(".") >= 1), None)
