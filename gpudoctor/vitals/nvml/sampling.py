"""The child process that samples the GPUs beside a run: one JSON record a line, one a second.

Started as a file with `python -I -S` like `child`; a driver that hangs then hangs this process and nobody else.
It ends when its standard input does, and so never outlives the recorder. Standard library and pynvml only.
"""

import sys
from collections.abc import Callable
from typing import Any

_GPM_SM, _GPM_PCIE_TX, _GPM_PCIE_RX = 2, 20, 21
_MIB = 1 << 20
_PCIE_EVERY = 5
"""Samples between two readings of the PCIe counters without GPM: each holds the call for 20 ms."""
_LIMITS = (
    "temperature_slowdown", "temperature_max", "temperature_memory_max",
    "pcie_width_max", "pcie_generation_max",
)  # fmt: skip
"""Readings that stay as they are while a run lasts."""
_STATES = {
    "margin": "nvmlDeviceGetMarginTemperature",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_replays": "nvmlDeviceGetPcieReplayCounter",
}
"""Columns of heat and link, each with the call that answers it."""


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
    repeat(interval, lambda turn: emit("sample", gpus=[meter.sample(turn) | meter.health() for meter in meters]))
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
        from gpudoctor.vitals.nvml.reading import memory_info, name, plain

        limit = plain(self._read("nvmlDeviceGetEnforcedPowerLimit"), lambda mw: mw / 1000.0)
        total = plain(self._safely(lambda: memory_info(self._funnel, self._gpu)), lambda m: m.total)
        return {
            "name": plain(self._safely(lambda: name(self._funnel, self._gpu)), str),
            "bytes": total if isinstance(total, int) else None,
            "power_limit": limit if isinstance(limit, float) else None,
            **self._limits(),
        }

    def sample(self, turn: int) -> dict[str, float]:
        """One reading of everything."""
        from gpudoctor.vitals.nvml.client import NotSupported
        from gpudoctor.vitals.nvml.reading import degrees, memory_info

        readings: dict[str, tuple[Any, Callable[[Any], float]]] = {
            "util": (self._read("nvmlDeviceGetUtilizationRates"), lambda u: u.gpu / 100.0),
            "memory": (self._safely(lambda: memory_info(self._funnel, self._gpu)), lambda m: m.used),
            "power": (self._read("nvmlDeviceGetPowerUsage"), lambda mw: mw / 1000.0),
            "temperature": (self._safely(lambda: degrees(self._funnel, self._gpu)), float),
            "clock": (self._read("nvmlDeviceGetClockInfo", 1), float),
            "reasons": (self._reasons(), float),
        }
        taken = {
            key: float(convert(value))
            for key, (value, convert) in readings.items()
            if not isinstance(value, NotSupported)
        }
        taken |= self._gpm.sample()
        if "pcie_rx" not in taken and turn % _PCIE_EVERY == 0:
            for key, counter in (("pcie_tx", 0), ("pcie_rx", 1)):
                rate = self._read("nvmlDeviceGetPcieThroughput", counter)
                if isinstance(rate, int):
                    taken[key] = rate * 1024.0
        return taken

    def health(self) -> dict[str, float]:
        """Heat of the memory and margin of the GPU in degrees Celsius, and the state of its PCIe link."""
        from gpudoctor.vitals.nvml.reading import memory_heat

        answers = {column: self._read(call) for column, call in _STATES.items()}
        heat = self._safely(lambda: memory_heat(self._funnel, self._gpu))
        answers["memory_temperature"] = heat.get("temperature_memory") if isinstance(heat, dict) else None
        return {column: float(value) for column, value in answers.items() if isinstance(value, int | float)}

    def _limits(self) -> dict[str, float]:
        from gpudoctor.vitals.nvml.reading import heat, link

        found: dict[str, Any] = {}
        for part in (heat, link):
            answer = self._safely(lambda part=part: part(self._funnel, self._gpu))
            found |= answer if isinstance(answer, dict) else {}
        return {key: found[key] for key in _LIMITS if isinstance(found.get(key), int | float)}

    def _reasons(self) -> Any:
        from gpudoctor.vitals.nvml.client import NotSupported

        value = self._read("nvmlDeviceGetCurrentClocksEventReasons")
        old = isinstance(value, NotSupported)
        return self._read("nvmlDeviceGetCurrentClocksThrottleReasons") if old else value

    def _read(self, call: str, *arguments: Any) -> Any:
        return self._safely(lambda: self._funnel.read(call, self._gpu, *arguments))

    def _safely(self, read: Any) -> Any:
        """The value, or `Missing` once the GPU is lost: the others are sampled on."""
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
        """Share of SMs busy and PCIe bytes a second since the last call; empty before Hopper."""
        if self._before is None:
            return {}
        nvml = self._nvml
        try:
            nvml.nvmlGpmSampleGet(self._gpu, self._free)
            asked = nvml.c_nvmlGpmMetricsGet_t()
            asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
            asked.sample1, asked.sample2 = self._before, self._free
            ids = (_GPM_SM, _GPM_PCIE_TX, _GPM_PCIE_RX)
            asked.numMetrics = len(ids)
            for place, metric in enumerate(ids):
                asked.metrics[place].metricId = metric
            nvml.nvmlGpmMetricsGet(asked)
        except (nvml.NVMLError, AttributeError, OSError):
            return {}
        self._before, self._free = self._free, self._before
        scales = {"sm": 0.01, "pcie_tx": float(_MIB), "pcie_rx": float(_MIB)}
        answers = zip(scales.items(), asked.metrics[: len(ids)], strict=True)
        return {key: answer.value * scale for (key, scale), answer in answers if answer.nvmlReturn == 0}


def _visible(nvml: Any, value: str | None, order: str) -> list[tuple[int, Any]]:
    """Numbers and handles of the GPUs that CUDA_VISIBLE_DEVICES leaves to the command, in its order.

    All GPUs where it is not known which ones those are.
    """
    from gpudoctor.model.visible_devices import ListedGpu, UnknownCards, visible
    from gpudoctor.vitals.nvml.client import GpuLost, NvmlClient
    from gpudoctor.vitals.nvml.reading import mig_devices, name, uuid

    funnel = NvmlClient(nvml)
    handles: dict[int, Any] = {}
    slices: dict[str, Any] = {}
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            gpu = handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
            mig = mig_devices(funnel, gpu)
            slices |= mig
            told = uuid(funnel, gpu)
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
