"""Samples the GPUs beside a run in the child process: one JSON record a line, one a second."""

from collections.abc import Mapping
from typing import Any

from gpudoctor.model.visible_devices import ListedGpu, UnknownCards, visible
from gpudoctor.vitals.nvml.child import Emit, repeat
from gpudoctor.vitals.nvml.client import GpuLost, NvmlClient
from gpudoctor.vitals.nvml.reading import UNNAMED, memory_temperature, mig_devices, name, reading

_GPM_SM = 2
_LIMITS = (
    "power_limit",
    "temperature_slowdown",
    "temperature_max",
    "temperature_memory_max",
    "pcie_width_max",
    "pcie_generation_max",
)
"""Readings that stay as they are while a run lasts."""
_SAMPLE = {
    "util": "utilization",
    "memory": "memory_used",
    "power": "power",
    "temperature": "temperature",
    "clock": "clock_sm",
    "reasons": "event_reasons",
}
_HEALTH = {
    "margin": "temperature_margin",
    "pcie_width": "pcie_width",
    "pcie_generation": "pcie_generation",
    "pcie_replays": "pcie_replays",
}
"""Columns, each with its reading."""


def main(nvml: Any, emit: Emit, given: str, order: str, interval: str) -> int:
    """Write a record `gpus` with names and limits, then one `sample` a turn, until standard input ends."""
    try:
        nvml.nvmlInit()
        gpus = _visible(nvml, None if given == "all" else given, order)
    except nvml.NVMLError as error:
        emit("failed", state="FAILED", error=str(error))
        return 0
    meters = [GpuSampler(nvml, gpu) for _, gpu in gpus]
    emit("gpus", gpus=[{**meter.facts(), "index": index} for meter, (index, _) in zip(meters, gpus, strict=True)])
    repeat(float(interval), lambda _: emit("sample", gpus=[meter.sample() | meter.health() for meter in meters]))
    return 0


class GpuSampler:
    """Readings of one GPU; what the card or the driver does not tell is left out, all of it once the GPU is lost."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._gpu = handle
        self._client = NvmlClient(nvml)
        self._gpm = _Gpm(nvml, handle)

    def facts(self) -> dict[str, Any]:
        """Name, memory in bytes, power limit in watts, limits of temperature and of the PCIe link."""
        total = self._numbers({"bytes": "memory_total"}).get("bytes")
        try:
            called = name(self._client, self._gpu)
        except GpuLost:
            called = UNNAMED
        return {
            "name": called,
            "bytes": None if total is None else int(total),
            "power_limit": None,
            **self._numbers({field: field for field in _LIMITS}),
        }

    def sample(self) -> dict[str, float]:
        """One reading of everything."""
        return self._numbers(_SAMPLE) | self._gpm.sample()

    def health(self) -> dict[str, float]:
        """Heat of the memory and margin of the GPU in degrees Celsius, and the state of its PCIe link."""
        try:
            heat = memory_temperature(self._client, self._gpu)
        except GpuLost:
            heat = None
        return self._numbers(_HEALTH) | ({"memory_temperature": float(heat)} if isinstance(heat, int | float) else {})

    def _numbers(self, columns: Mapping[str, str]) -> dict[str, float]:
        """The readings that are there, by column."""
        found: dict[str, float] = {}
        for column, field in columns.items():
            try:
                value = reading(self._client, self._gpu, field)
            except GpuLost:
                continue
            if isinstance(value, int | float):
                found[column] = float(value)
        return found


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
        """Share of SMs busy since the last call; empty before Hopper."""
        if self._before is None:
            return {}
        nvml = self._nvml
        try:
            nvml.nvmlGpmSampleGet(self._gpu, self._free)
            asked = nvml.c_nvmlGpmMetricsGet_t()
            asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
            asked.sample1, asked.sample2 = self._before, self._free
            asked.numMetrics = 1
            asked.metrics[0].metricId = _GPM_SM
            nvml.nvmlGpmMetricsGet(asked)
        except (nvml.NVMLError, AttributeError, OSError):
            return {}
        self._before, self._free = self._free, self._before
        answer = asked.metrics[0]
        return {"sm": answer.value * 0.01} if answer.nvmlReturn == 0 else {}


def _visible(nvml: Any, value: str | None, order: str) -> list[tuple[int, Any]]:
    """Numbers and handles of the GPUs that CUDA_VISIBLE_DEVICES leaves to the command, in its order.

    All GPUs where it is not known which ones those are.
    """
    client = NvmlClient(nvml)
    handles: dict[int, Any] = {}
    slices: dict[str, Any] = {}
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            gpu = handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
            mig = mig_devices(client, gpu)
            slices |= mig
            told = reading(client, gpu, "uuid")
            known = told if isinstance(told, str) else None
            cards.append(ListedGpu(index=index, name=name(client, gpu), uuid=known, mig=tuple(mig)))
        except (nvml.NVMLError, GpuLost):
            handles.pop(index, None)
            cards.append(ListedGpu(index=index))  # a lost card keeps its place
    try:
        seen = visible(value, order, cards)
    except UnknownCards:
        return list(handles.items())
    if seen.indices is None:
        return list(handles.items())
    if seen.mig:
        return [(seen.indices[0], slices[seen.mig])]
    return [(index, handles[index]) for index in seen.indices if index in handles]
