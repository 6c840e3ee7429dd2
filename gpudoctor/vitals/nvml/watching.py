"""Watches the GPUs in the child process: one JSON record a line, a sample a second, events as they come."""

from threading import Lock, Thread
from typing import Any

from gpudoctor.vitals.nvml.child import Emit, repeat
from gpudoctor.vitals.nvml.client import GpuLost, NvmlClient
from gpudoctor.vitals.nvml.reading import plain, processes, read_gpu
from gpudoctor.vitals.nvml.sampling import GpuSampler

_EVENTS = {0x8: "xid", 0x2: "double-bit-ecc", 0x4000: "unavailable", 0x8000: "recovery"}
_TIMEOUT = 10  # NVML_ERROR_TIMEOUT: no event came, the usual answer
_WAIT = 1000
"""Milliseconds that one wait for events takes."""


def main(nvml: Any, write: Emit, interval: str, slow_every: str) -> int:
    """Write `failed`, or `driver`, `survey` (now and every `slow_every` samples), `sample`, `event` records."""
    lock = Lock()

    def emit(record: str, **values: Any) -> None:
        with lock:  # two threads write
            write(record, **values)

    try:
        nvml.nvmlInit()
        emit("driver", version=plain(NvmlClient(nvml).read("nvmlSystemGetDriverVersion")))
        gpus = [Watched(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        emit("failed", state="FAILED", error=str(error))
        return 0
    Thread(target=_listen, args=(nvml, gpus, emit), name="events", daemon=True).start()

    def look(turn: int) -> None:
        if turn % int(slow_every) == 0:
            for gpu in gpus:
                gpu.survey(emit)
        emit("sample", gpus=[gpu.sample() for gpu in gpus])

    repeat(float(interval), look)
    return 0


class Watched:
    """One GPU, also one that is lost: it keeps its number."""

    def __init__(self, nvml: Any, index: int) -> None:
        self.index = index
        self.handle: Any = None
        self.lost = ""
        self._client = NvmlClient(nvml)
        try:
            self.handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._meter = GpuSampler(nvml, self.handle)
        except nvml.NVMLError as error:
            self.lost = str(error)

    def survey(self, emit: Emit) -> None:
        """Everything that a check of the hardware reads."""
        if self.lost:
            emit("lost", index=self.index, error=self.lost)
            return
        try:
            emit("survey", **read_gpu(self._client, self.handle, self.index))
        except GpuLost as error:
            self.lost = str(error)

    def sample(self) -> dict[str, Any]:
        """What changes from second to second; what the card or the driver does not tell is left out."""
        taken: dict[str, Any] = {"index": self.index}
        if not self.lost:
            try:
                taken |= self._meter.sample()
                taken["processes"] = processes(self._client, self.handle)
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
