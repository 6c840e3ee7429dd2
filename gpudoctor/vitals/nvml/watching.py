"""The child process that watches the GPUs: one JSON record a line, a sample a second, events as they come.

Started as a file with `python -I -S` like `child`: a driver that hangs then hangs this process and nobody else. It
ends when its standard input does, and so never outlives the watch. Standard library and pynvml only.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from threading import Lock, Thread
from typing import Any

_XID, _DOUBLE_BIT, _UNAVAILABLE, _RECOVERY = 0x8, 0x2, 0x4000, 0x8000
_EVENTS = {_XID: "xid", _DOUBLE_BIT: "double-bit-ecc", _UNAVAILABLE: "unavailable", _RECOVERY: "recovery"}
_TIMEOUT = 10  # NVML_ERROR_TIMEOUT: no event came, the usual answer
_PCIE_EVERY = 5
"""Samples between two readings of the PCIe counters without GPM: each holds the call for 20 ms."""
_GPM = {2: ("sm", 0.01), 20: ("pcie_tx", 1048576.0), 21: ("pcie_rx", 1048576.0), 60: ("nvlink_rx", 1048576.0),
        61: ("nvlink_tx", 1048576.0)}  # fmt: skip
"""GPM metric to the sample's name and the factor to a share or to bytes a second."""

Emit = Callable[..., None]


def main(interval: float, slow_every: int, search_path: list[str]) -> int:
    """Write `failed`, or `survey` (now and every `slow_every` samples), `sample` and `event` records."""
    sys.path[:0] = search_path
    emit = _writer()
    try:
        import ctypes

        ctypes.CDLL("libnvidia-ml.so.1")
        import pynvml

        pynvml.nvmlInit()
        handles = list(_handles(pynvml))
    except (ImportError, OSError) as error:
        emit("failed", error="" if "No such file" in str(error) else str(error))
        return 0
    except Exception as error:  # noqa: BLE001  # the binding's error class is not known before its import
        emit("failed", error=str(error))
        return 0
    Thread(target=_listen, args=(pynvml, handles, emit), name="events", daemon=True).start()
    meters = [Meter(pynvml, handle) for _, handle in handles]
    turn = 0
    while True:
        began = time.monotonic()
        if turn % slow_every == 0:
            for index, handle in handles:
                _survey(pynvml, index, handle, emit)
        emit("sample", gpus=[meter.sample(index, turn) for meter, (index, _) in zip(meters, handles, strict=True)])
        turn += 1
        if _parent_gone(max(0.05, interval - (time.monotonic() - began))):
            return 0


def _writer() -> Emit:
    """Writes records to what was standard output; what the driver's library prints goes elsewhere."""
    pipe = os.fdopen(os.dup(1), "w", encoding="ascii", errors="backslashreplace")
    os.dup2(2, 1)
    lock = Lock()

    def emit(record: str, **values: Any) -> None:
        with lock:
            pipe.write(json.dumps({"record": record, **values}) + "\n")
            pipe.flush()

    return emit


def _handles(nvml: Any) -> Iterator[tuple[int, Any]]:
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            yield index, nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            continue  # a lost card keeps its number and has no handle


def _survey(nvml: Any, index: int, handle: Any, emit: Emit) -> None:
    """Everything that a check of the hardware reads, of one GPU."""
    from gpudoctor.vitals.nvml.funnel import Funnel, Gone
    from gpudoctor.vitals.nvml.reading import read_gpu

    try:
        emit("survey", **read_gpu(Funnel(nvml), handle, index))
    except Gone as error:
        emit("lost", index=index, error=str(error))


class Meter:
    """Readings of one GPU that change from second to second; what is not told is left out."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        from gpudoctor.vitals.nvml.funnel import Funnel

        self._nvml, self._gpu = nvml, handle
        self._funnel = Funnel(nvml)
        self._memory_version: tuple[int, ...] | None = None
        self._gpm = _Gpm(nvml, handle)

    def sample(self, index: int, turn: int) -> dict[str, Any]:
        """One reading."""
        from gpudoctor.vitals.nvml.funnel import Gone

        taken: dict[str, Any] = {"index": index}
        try:
            self._numbers(taken)
            taken["processes"] = self._processes()
            taken |= self._gpm.sample()
            if "pcie_rx" not in taken and turn % _PCIE_EVERY == 0:
                for name, counter in (("pcie_tx", 0), ("pcie_rx", 1)):
                    self._put(taken, name, "nvmlDeviceGetPcieThroughput", counter, scale=1024.0)
        except Gone as error:
            taken["lost"] = str(error)
        return taken

    def _numbers(self, taken: dict[str, Any]) -> None:
        self._put(taken, "busy", "nvmlDeviceGetUtilizationRates", field="gpu", scale=0.01)
        self._put(taken, "memory", "nvmlDeviceGetMemoryInfo", 0x02000028, field="used")
        if "memory" not in taken:
            self._put(taken, "memory", "nvmlDeviceGetMemoryInfo", field="used")
        self._put(taken, "power", "nvmlDeviceGetPowerUsage", scale=0.001)
        self._put(taken, "temperature", "nvmlDeviceGetTemperature", 0)
        self._put(taken, "clock", "nvmlDeviceGetClockInfo", 1)
        self._put(taken, "reasons", "nvmlDeviceGetCurrentClocksEventReasons")
        if "reasons" not in taken:
            self._put(taken, "reasons", "nvmlDeviceGetCurrentClocksThrottleReasons")

    def _put(
        self, taken: dict[str, Any], name: str, call: str, *arguments: Any, field: str = "", scale: float = 1.0
    ) -> None:
        value = self._funnel.read(call, self._gpu, *arguments)
        value = getattr(value, field, None) if field else value
        if isinstance(value, int | float):
            taken[name] = value * scale

    def _processes(self) -> list[dict[str, Any]]:
        found: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            name = f"nvmlDeviceGet{kind}RunningProcesses"
            listed = self._funnel.first((f"{name}_v3", self._gpu), (f"{name}_v2", self._gpu))
            for process in listed if isinstance(listed, list) else ():
                found.setdefault(int(process.pid), process.usedGpuMemory)
        return [{"pid": pid, "memory": memory} for pid, memory in found.items()]


class _Gpm:
    """GPU performance monitoring, from Hopper on: rates between two samples."""

    def __init__(self, nvml: Any, gpu: Any) -> None:
        self._nvml, self._gpu = nvml, gpu
        self._before: Any = None
        self._free: Any = None
        try:
            if nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
                self._before, self._free = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
                nvml.nvmlGpmSampleGet(gpu, self._before)
        except (nvml.NVMLError, AttributeError, OSError):
            self._before = None

    def sample(self) -> dict[str, float]:
        """Share of SMs busy, PCIe and NVLink bytes a second since the last call; empty before Hopper."""
        if self._before is None:
            return {}
        nvml = self._nvml
        try:
            nvml.nvmlGpmSampleGet(self._gpu, self._free)
            asked = nvml.c_nvmlGpmMetricsGet_t()
            asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
            asked.sample1, asked.sample2 = self._before, self._free
            asked.numMetrics = len(_GPM)
            for place, metric in enumerate(_GPM):
                asked.metrics[place].metricId = metric
            nvml.nvmlGpmMetricsGet(asked)
        except (nvml.NVMLError, AttributeError, OSError):
            return {}
        self._before, self._free = self._free, self._before
        answers = zip(_GPM.values(), asked.metrics[: len(_GPM)], strict=True)
        return {name: answer.value * factor for (name, factor), answer in answers if answer.nvmlReturn == 0}


def _listen(nvml: Any, handles: list[tuple[int, Any]], emit: Emit) -> None:
    """Events that the driver reports from now on; without the right or the support there are none."""
    by_address: dict[str, int] = {}
    try:
        events = nvml.nvmlEventSetCreate()
        for index, handle in handles:
            mask = nvml.nvmlDeviceGetSupportedEventTypes(handle) & sum(_EVENTS)
            nvml.nvmlDeviceRegisterEvents(handle, mask, events)
            by_address[_address(nvml, handle)] = index
    except (nvml.NVMLError, AttributeError) as error:
        emit("deaf", error=str(error))
        return
    while True:
        try:
            event = nvml.nvmlEventSetWait_v2(events, 1000)
        except nvml.NVMLError as error:
            if getattr(error, "value", 0) != _TIMEOUT:
                emit("deaf", error=str(error))
                return
            continue
        address = _address(nvml, event.device)
        kind = _EVENTS.get(int(event.eventType), f"event-{int(event.eventType):#x}")
        emit("event", index=by_address.get(address, -1), kind=kind, number=int(event.eventData), address=address)


def _address(nvml: Any, handle: Any) -> str:
    try:
        bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
    except nvml.NVMLError:
        return ""
    return bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else str(bus_id)


def _parent_gone(seconds: float) -> bool:
    """Whether standard input ended while we waited."""
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and not os.read(0, 64)


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
