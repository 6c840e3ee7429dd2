"""The child process that samples the GPUs beside a run: one JSON record a line, one a second.

Started as a file with `python -I -S` like `child`; a driver that hangs then hangs this process and nobody else.
It ends when its standard input does, and so never outlives the recorder. Standard library and pynvml only.
"""

import sys
from collections.abc import Mapping
from typing import Any

_GPM_SM = 2
_LIMITS = (
    "power_limit", "temperature_slowdown", "temperature_max", "temperature_memory_max", "pcie_width_max",
    "pcie_generation_max",
)  # fmt: skip
"""Readings that stay as they are while a run lasts."""
_SAMPLE = {
    "util": "utilization", "memory": "memory_used", "power": "power", "temperature": "temperature",
    "clock": "clock_sm", "reasons": "event_reasons",
}  # fmt: skip
_HEALTH = {
    "margin": "temperature_margin", "pcie_width": "pcie_width", "pcie_generation": "pcie_generation",
    "pcie_replays": "pcie_replays",
}  # fmt: skip
"""Columns, each with its reading."""


def main(visible: str, order: str, interval: float, search_path: list[str]) -> int:
    """Write a record `gpus` with names and limits, then one `sample` a turn, until standard input ends."""
    sys.path[:0] = search_path
    from gpudoctor.vitals.nvml.child import binding, record_writer, repeat

    emit = record_writer()
    pynvml = binding(emit)
    if pynvml is None:
        return 0
    try:
        pynvml.nvmlInit()
        gpus = _visible(pynvml, None if visible == "all" else visible, order)
    except pynvml.NVMLError as error:
        emit("failed", state="FAILED", error=str(error))
        return 0
    meters = [GpuSampler(pynvml, gpu) for _, gpu in gpus]
    facts = [{**meter.facts(), "index": index} for meter, (index, _) in zip(meters, gpus, strict=True)]
    emit("gpus", gpus=facts)
    repeat(interval, lambda _: emit("sample", gpus=[meter.sample() | meter.health() for meter in meters]))
    return 0


class GpuSampler:
    """Readings of one GPU; what the card or the driver does not tell is left out."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        from gpudoctor.vitals.nvml.client import NvmlClient

        self._nvml = nvml
        self._gpu = handle
        self._funnel = NvmlClient(nvml)
        self._gpm = _Gpm(nvml, handle)

    def facts(self) -> dict[str, Any]:
        """Name, memory in bytes, power limit in watts, limits of temperature and of the PCIe link."""
        from gpudoctor.vitals.nvml.reading import name

        total = self._numbers({"bytes": "memory_total"}).get("bytes")
        called = self._safely(lambda: name(self._funnel, self._gpu))
        return {
            "name": called if isinstance(called, str) else "NVIDIA GPU",
            "bytes": None if total is None else int(total),
            "power_limit": None,
            **self._numbers({field: field for field in _LIMITS}),
        }

    def sample(self) -> dict[str, float]:
        """One reading of everything."""
        return self._numbers(_SAMPLE) | self._gpm.sample()

    def health(self) -> dict[str, float]:
        """Heat of the memory and margin of the GPU in degrees Celsius, and the state of its PCIe link."""
        from gpudoctor.vitals.nvml.reading import FIELD_MEMORY_TEMPERATURE, memory_temperature

        fields = self._safely(lambda: self._funnel.fields(self._gpu, (FIELD_MEMORY_TEMPERATURE,)))
        heat = memory_temperature(fields) if isinstance(fields, dict) else None
        return self._numbers(_HEALTH) | ({"memory_temperature": float(heat)} if isinstance(heat, int | float) else {})

    def _numbers(self, columns: Mapping[str, str]) -> dict[str, float]:
        """The readings that are there, by column."""
        from gpudoctor.vitals.nvml.reading import reading

        taken = {
            key: self._safely(lambda f=field: reading(self._funnel, self._gpu, f)) for key, field in columns.items()
        }
        return {key: float(value) for key, value in taken.items() if isinstance(value, int | float)}

    def _safely(self, read: Any) -> Any:
        """The value, or `NotSupported` once the GPU is lost: the others are sampled on."""
        from gpudoctor.vitals.nvml.client import GpuLost, NotSupported

        try:
            return read()
        except GpuLost:
            return NotSupported("the GPU is lost")


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
    from gpudoctor.model.visible_devices import ListedGpu, UnknownCards, visible
    from gpudoctor.vitals.nvml.client import GpuLost, NvmlClient
    from gpudoctor.vitals.nvml.reading import mig_devices, name, reading

    funnel = NvmlClient(nvml)
    handles: dict[int, Any] = {}
    slices: dict[str, Any] = {}
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            gpu = handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
            mig = mig_devices(funnel, gpu)
            slices |= mig
            told = reading(funnel, gpu, "uuid")
            known = told if isinstance(told, str) else None
            cards.append(ListedGpu(index=index, name=name(funnel, gpu), uuid=known, mig=tuple(mig)))
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


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]))
