"""Reads one GPU through the funnel into plain JSON values, named like the fields of `Gpu`.

Runs in the child process: standard library only. A missing value is `{"absent": reason}`.
"""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from gpudoctor.lang import say
from gpudoctor.vitals.nvml.client import NotSupported, NvmlClient

Json = Any
UNNAMED = "NVIDIA GPU"
_MAX_LINKS = 36
_MEMORY_TEMPERATURE, _RECOVERY_ACTION = 82, 230
"""NVML fields."""
_NO_FIELD = NotSupported("the driver did not answer this field")


def plain(value: Any, convert: Callable[[Any], Json] | None = None) -> Json:
    """The value, converted, as JSON; the reason of a missing one."""
    if isinstance(value, NotSupported):
        return {"absent": value.reason}
    return convert(value) if convert else value


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000.0


def short_address(bus_id: str) -> str:
    """`0000:3b:00.0`: NVML writes an eight-digit domain in capitals, the kernel four digits in small ones."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest}" if rest else bus_id.lower()


# Version 2 keeps the driver's own reserve out of "used".
_MEMORY = ("MemoryInfo", 0x02000028)
_READINGS: dict[str, tuple[Any, ...]] = {
    "uuid": (None, ("UUID",)),
    "pci_address": (lambda info: short_address(info.busId), ("PciInfo",)),
    "memory_total": (lambda memory: memory.total, _MEMORY),
    "memory_used": (lambda memory: memory.used, _MEMORY),
    "compute_capability": (list, ("CudaComputeCapability",)),
    "utilization": (lambda rates: rates.gpu / 100.0, ("UtilizationRates",)),
    "display_active": (bool, ("DisplayActive",)),
    # Arguments: 1 uncorrected, 0 volatile.
    "ecc_uncorrected_volatile": (None, ("TotalEccErrors", 1, 0)),
    "row_remap": (list, ("RemappedRows",)),
    "event_reasons": (None, ("CurrentClocksEventReasons",)),
    "clock_sm": (None, ("ClockInfo", 1)),
    "power": (_watts, ("PowerUsage",)),
    "power_limit": (_watts, ("EnforcedPowerLimit",)),
    "power_limit_default": (_watts, ("PowerManagementDefaultLimit",)),
    "persistence": (bool, ("PersistenceMode",)),
    "temperature": (float, ("TemperatureV", 0), ("Temperature", 0)),  # drivers after r565 drop the older call
    "temperature_slowdown": (float, ("TemperatureThreshold", 1)),
    "temperature_memory_max": (float, ("TemperatureThreshold", 2)),
    "temperature_max": (float, ("TemperatureThreshold", 3)),
    "temperature_margin": (float, ("MarginTemperature",)),
    "pcie_width": (None, ("CurrPcieLinkWidth",)),
    "pcie_width_max": (None, ("MaxPcieLinkWidth",)),
    "pcie_generation": (None, ("CurrPcieLinkGeneration",)),
    "pcie_generation_max": (None, ("MaxPcieLinkGeneration",)),
    "pcie_replays": (None, ("PcieReplayCounter",)),
    "compute_mode": (None, ("ComputeMode",)),
    "mig_enabled": (lambda modes: bool(modes[0]), ("MigMode",)),
}
"""Field of `Gpu` to the conversion of the answer and the calls that give it, without `nvmlDeviceGet`: the first
one that the driver and the binding have. Watts, degrees Celsius, megahertz, bytes."""


def reading(funnel: NvmlClient, gpu: Any, field: str) -> Json:
    """One reading of the table, or why it is not there."""
    convert, *calls = _READINGS[field]
    return plain(funnel.first(*((f"nvmlDeviceGet{call}", gpu, *more) for call, *more in calls)), convert)


def read_gpu(funnel: NvmlClient, handle: Any, index: int) -> dict[str, Json]:
    """All readings of one GPU; raises `GpuLost` when it is lost on the way."""
    record: dict[str, Json] = {"index": index, "name": name(funnel, handle)}
    record |= {field: reading(funnel, handle, field) for field in _READINGS}
    retired = [funnel.read("nvmlDeviceGetRetiredPages", handle, cause) for cause in (0, 1)]
    missing = next((pages for pages in retired if isinstance(pages, NotSupported)), retired)
    asked = funnel.fields(handle, (_RECOVERY_ACTION, _MEMORY_TEMPERATURE))
    fabric = _fabric(funnel, handle)
    slices = funnel.read("nvmlDeviceGetMaxMigDeviceCount", handle) if record["mig_enabled"] is True else 0
    return record | {
        "retired_pages": plain(missing, lambda lists: sum(map(len, lists))),
        "recovery_action": plain(asked.get(_RECOVERY_ACTION, _NO_FIELD)),
        "temperature_memory": _heat(asked),
        "nvlinks": _links(funnel, handle),
        "fabric_state": plain(fabric, lambda info: info.state),
        # registration finished with an error
        "fabric_unhealthy": plain(fabric, lambda info: info.state == 3 and info.status != 0),
        "mig_instances": plain(slices, lambda most: list(mig_devices(funnel, handle)) if most else []),
        "processes": processes(funnel, handle),
    }


def name(funnel: NvmlClient, gpu: Any) -> str:
    """A GPU's name as the driver has it."""
    answer = plain(funnel.read("nvmlDeviceGetName", gpu))
    return answer if isinstance(answer, str) else UNNAMED


def memory_temperature(funnel: NvmlClient, gpu: Any) -> Json:
    """Degrees Celsius."""
    return _heat(funnel.fields(gpu, (_MEMORY_TEMPERATURE,)))


def _heat(fields: Mapping[int, Any]) -> Json:
    """Of the memory; a card without a sensor answers 0."""
    answer = fields.get(_MEMORY_TEMPERATURE, _NO_FIELD)
    return plain(answer if answer != 0 else NotSupported("not supported by this card"))


def _links(funnel: NvmlClient, gpu: Any) -> Json:
    """NVLink ports up to the first that the card does not have; "not supported" is not "down"."""
    links: list[Json] = []
    for port in range(_MAX_LINKS):
        state = funnel.read("nvmlDeviceGetNvLinkState", gpu, port)
        if isinstance(state, NotSupported):
            if not links:
                return plain(state)
            break
        links.append({"index": port, "active": bool(state)})
    return links


class _FabricV2(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t of nvml.h; ours, because older bindings declare it with a wrong size."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("clusterUuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_uint8),
        ("healthMask", ctypes.c_uint32),
    ]


def _fabric(funnel: NvmlClient, gpu: Any) -> "_FabricV2 | NotSupported":
    # The version word holds the number in its top byte and the structure's size below.
    asked = _FabricV2(version=2 << 24 | ctypes.sizeof(_FabricV2))
    answer = funnel.read("nvmlDeviceGetGpuFabricInfoV", gpu, ctypes.byref(asked))
    return answer if isinstance(answer, NotSupported) else asked


def mig_devices(funnel: NvmlClient, gpu: Any) -> dict[str, Any]:
    """The handles of a GPU's MIG devices by UUID; none where it is not cut."""
    count = funnel.read("nvmlDeviceGetMaxMigDeviceCount", gpu)
    found: dict[str, Any] = {}
    for slot in range(0 if isinstance(count, NotSupported) else count):
        device = funnel.read("nvmlDeviceGetMigDeviceHandleByIndex", gpu, slot)
        if not isinstance(device, NotSupported):  # else an empty slot
            named = reading(funnel, device, "uuid")
            if isinstance(named, str):
                found[named] = device
    return found


def processes(funnel: NvmlClient, gpu: Any) -> Json:
    """Pid, kind and bytes of every process on the GPU."""
    found: list[Json] = []
    missing: Json = None
    for kind, call in (("compute", "Compute"), ("graphics", "Graphics")):
        name = f"nvmlDeviceGet{call}RunningProcesses"
        # The name without a version is the newest, and raises oddly.
        listed = funnel.read(f"{name}_v3", gpu)
        if isinstance(listed, NotSupported):
            missing = missing or plain(listed)
            continue
        for process in listed:
            memory = process.usedGpuMemory
            found.append(
                {
                    "pid": int(process.pid),
                    "kind": kind,
                    "memory": {"absent": say("the driver does not report it")} if memory is None else int(memory),
                }
            )
    return missing if missing is not None and not found else found
