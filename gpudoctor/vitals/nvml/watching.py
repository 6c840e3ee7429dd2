"""The child process that watches the GPUs: one JSON record a line, a sample a second, events as they come.

Started as a file with `python -I -S` like `child`: a driver that hangs then hangs this process and nobody
else. It ends when its standard input does, and so never outlives the watch. Standard library and pynvml only.
"""

import sys
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

_EVENTS = {0x8: "xid", 0x2: "double-bit-ecc", 0x4000: "unavailable", 0x8000: "recovery"}
_TIMEOUT = 10  # NVML_ERROR_TIMEOUT: no event came, the usual answer
_WAIT = 1000
"""Milliseconds that one wait for events takes."""

Emit = Callable[..., None]


def main(interval: float, slow_every: int, search_path: list[str]) -> int:
    """Write `failed`, or `driver`, `survey` (now and every `slow_every` samples), `sample`, `event` records."""
    sys.path[:0] = search_path
    from gpudoctor.vitals.nvml.child import binding, record_writer, repeat

    emit = _locked(record_writer())
    pynvml = binding(emit)
    if pynvml is None:
        return 0
    from gpudoctor.vitals.nvml.client import NvmlClient
    from gpudoctor.vitals.nvml.reading import plain

    try:
        pynvml.nvmlInit()
        emit("driver", version=plain(NvmlClient(pynvml).read("nvmlSystemGetDriverVersion")))
        gpus = [Watched(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        emit("failed", state="FAILED", error=str(error))
        return 0
    Thread(target=_listen, args=(pynvml, gpus, emit), name="events", daemon=True).start()

    def look(turn: int) -> None:
        if turn % slow_every == 0:
            for gpu in gpus:
                gpu.survey(emit)
        emit("sample", gpus=[gpu.sample() for gpu in gpus])

    repeat(interval, look)
    return 0


def _locked(emit: Emit) -> Emit:
    """Two threads write."""
    lock = Lock()

    def guarded(record: str, **values: Any) -> None:
        with lock:
            emit(record, **values)

    return guarded


class Watched:
    """One GPU, also one that is lost: it keeps its number."""

    def __init__(self, nvml: Any, index: int) -> None:
        from gpudoctor.vitals.nvml.client import NvmlClient
        from gpudoctor.vitals.nvml.sampling import GpuSampler

        self.index = index
        self.handle: Any = None
        self.lost = ""
        self._funnel = NvmlClient(nvml)
        try:
            self.handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._meter = GpuSampler(nvml, self.handle)
        except nvml.NVMLError as error:
            self.lost = str(error)

    def survey(self, emit: Emit) -> None:
        """Everything that a check of the hardware reads."""
        from gpudoctor.vitals.nvml.client import GpuLost
        from gpudoctor.vitals.nvml.reading import read_gpu

        if self.lost:
            emit("lost", index=self.index, error=self.lost)
            return
        try:
            emit("survey", **read_gpu(self._funnel, self.handle, self.index))
        except GpuLost as error:
            self.lost = str(error)

    def sample(self) -> dict[str, Any]:
        """What changes from second to second; what the card or the driver does not tell is left out."""
        from gpudoctor.vitals.nvml.client import GpuLost
        from gpudoctor.vitals.nvml.reading import processes

        taken: dict[str, Any] = {"index": self.index}
        if not self.lost:
            try:
                taken |= self._meter.sample()
                taken["processes"] = processes(self._funnel, self.handle)
            except GpuLost as error:
                self.lost = str(error)
        return taken | {"lost": self.lost}


def _listen(nvml: Any, gpus: list[Watched], emit: Emit) -> None:
    """Events that the driver reports from now on; without the right or the support there are none."""
    by_address: dict[str, int] = {}
    try:
        events = nvml.nvmlEventSetCreate()
        for gpu in gpus:
            if not gpu.lost:
                mask = nvml.nvmlDeviceGetSupportedEventTypes(gpu.handle) & sum(_EVENTS)
                nvml.nvmlDeviceRegisterEvents(gpu.handle, mask, events)
                by_address[_address(nvml, gpu.handle)] = gpu.index
    except (nvml.NVMLError, AttributeError):
        return
    while True:
        try:
            event = nvml.nvmlEventSetWait(events, _WAIT)
        except nvml.NVMLError as error:
            if getattr(error, "value", 0) == _TIMEOUT:
                continue
            return
        address = _address(nvml, event.device)
        kind = _EVENTS.get(int(event.eventType), f"event-{int(event.eventType):#x}")
        emit("event", index=by_address.get(address, -1), kind=kind, number=int(event.eventData), address=address)


def _address(nvml: Any, handle: Any) -> str:
    try:
        return str(nvml.nvmlDeviceGetPciInfo(handle).busId)
    except nvml.NVMLError:
        return ""


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
