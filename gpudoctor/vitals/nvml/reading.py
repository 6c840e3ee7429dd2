"""Reads one GPU through the funnel into plain JSON values, named like the fields of `Gpu`.

Runs in the child process: standard library only. A missing value is `{"absent": reason}`.
"""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from gpudoctor.lang import say
from gpudoctor.vitals.nvml.client import CORRUPTED_INFOROM, NotSupported, NvmlClient

Json = Any

_ARCHITECTURES = {
    2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper",
    10: "blackwell", 13: "rubin",
}  # fmt: skip

_MAX_LINKS = 36
_LARGEST_PID = 1 << 22
"""PID_MAX_LIMIT. A pid beyond it, or 0, comes of records of another size: drivers 535.43 to 535.86 and
nvidia-ml-py 12.535.77 have 32 bytes a process, all others 24."""
_FIELD_MEMORY_TEMPERATURE = 82
_FIELD_RECOVERY_ACTION = 230
_NO_FIELD = NotSupported("the driver did not answer this field")
_FIELDS_THROTTLE = {74: "power", 269: "thermal", 270: "hw_thermal", 271: "power_brake"}  # nanoseconds


def plain(value: Any, convert: Callable[[Any], Json] | None = None) -> Json:
    """The value, converted, as JSON; the reason of a missing one."""
    if isinstance(value, NotSupported):
        return {"absent": value.reason}
    return convert(value) if convert else value


def text(value: Any) -> str:
    """A string of the driver's; bindings before 11.515 answer bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000.0


def read_gpu(funnel: NvmlClient, handle: Any, index: int) -> dict[str, Json]:
    """All readings of one GPU; raises `Gone` when it is lost on the way."""
    record: dict[str, Json] = {"index": index}
    for part in (_identity, _memory_errors, _recovery, _clocks, _power, heat, link, _links, _fabric, _use):
        record.update(part(funnel, handle))
    return record


def uuid(funnel: NvmlClient, gpu: Any) -> Json:
    """The UUID of a GPU or MIG device, or why it is not told."""
    return plain(funnel.read("nvmlDeviceGetUUID", gpu), text)


def memory_info(funnel: NvmlClient, gpu: Any) -> Any:
    """`total` and `used` bytes of a GPU's memory, or `Missing`."""
    return funnel.first(
        # Version 2 keeps the driver's own reserve out of "used"; version 1 charges it to nobody.
        ("nvmlDeviceGetMemoryInfo", gpu, 0x02000028),
        ("nvmlDeviceGetMemoryInfo", gpu),
    )


def name(funnel: NvmlClient, gpu: Any) -> str:
    """A GPU's name as the driver has it."""
    answer = plain(funnel.read("nvmlDeviceGetName", gpu), text)
    return answer if isinstance(answer, str) else "NVIDIA GPU"


def _identity(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    read = funnel.read
    memory = memory_info(funnel, gpu)
    return {
        "name": name(funnel, gpu),
        "uuid": uuid(funnel, gpu),
        "pci_address": plain(read("nvmlDeviceGetPciInfo", gpu), lambda info: short_address(text(info.busId))),
        "memory_total": plain(memory, lambda m: m.total),
        "memory_used": plain(memory, lambda m: m.used),
        "compute_capability": plain(read("nvmlDeviceGetCudaComputeCapability", gpu), list),
        "architecture": plain(read("nvmlDeviceGetArchitecture", gpu), lambda n: _ARCHITECTURES.get(n, f"{n}")),
        "utilization": plain(read("nvmlDeviceGetUtilizationRates", gpu), lambda u: u.gpu / 100.0),
        "vbios": plain(read("nvmlDeviceGetVbiosVersion", gpu), text),
        "display_active": plain(read("nvmlDeviceGetDisplayActive", gpu), bool),
    }


def short_address(bus_id: str) -> str:
    """`0000:3b:00.0`: NVML writes an eight-digit domain in capitals, the kernel four digits in small ones."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest}" if rest else bus_id.lower()


def _memory_errors(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    read = funnel.read
    mode = read("nvmlDeviceGetEccMode", gpu)
    remap = plain(read("nvmlDeviceGetRemappedRows", gpu), list)
    retired = [read("nvmlDeviceGetRetiredPages", gpu, cause) for cause in (0, 1)]
    status = getattr(funnel.nvml, "c_nvmlEccSramErrorStatus_v1_t", None)
    sram = _fill(funnel, "nvmlDeviceGetSramEccErrorStatus", gpu, status() if status else None)
    inforom = _inforom(funnel, gpu)
    return {
        "ecc_enabled": plain(mode, lambda m: bool(m[0])),
        "ecc_pending": plain(mode, lambda m: bool(m[1])),
        # Arguments: 0 corrected, 1 uncorrected; 0 volatile, 1 aggregate; location 7 SRAM.
        "ecc_uncorrected_volatile": plain(read("nvmlDeviceGetTotalEccErrors", gpu, 1, 0)),
        "ecc_uncorrected_aggregate": plain(read("nvmlDeviceGetTotalEccErrors", gpu, 1, 1)),
        "ecc_corrected_volatile": plain(read("nvmlDeviceGetTotalEccErrors", gpu, 0, 0)),
        "ecc_sram_uncorrected_aggregate": plain(read("nvmlDeviceGetMemoryErrorCounter", gpu, 1, 1, 7)),
        "ecc_sram_threshold_exceeded": plain(sram, lambda s: bool(s.bThresholdExceeded)),
        "row_remap": remap,
        "row_remap_exhausted_banks": plain(read("nvmlDeviceGetRowRemapperHistogram", gpu), lambda h: h.none),
        "retired_pages": plain(
            next((pages for pages in retired if isinstance(pages, NotSupported)), retired),
            lambda lists: sum(len(pages) for pages in lists),
        ),
        "retired_pages_pending": plain(read("nvmlDeviceGetRetiredPagesPendingStatus", gpu), bool),
        "inforom_valid": inforom,
    }


def _inforom(funnel: NvmlClient, gpu: Any) -> Json:
    """True, False when NVML calls it corrupted, or absent."""
    try:
        funnel.nvml.nvmlDeviceValidateInforom(gpu)
    except funnel.nvml.NVMLError as error:
        if getattr(error, "value", 0) == CORRUPTED_INFOROM:
            return False
        return plain(funnel.read("nvmlDeviceValidateInforom", gpu), lambda _: True)
    except AttributeError:
        return {"absent": say("this nvidia-ml-py is too old")}
    return True


def _fill(funnel: NvmlClient, call: str, gpu: Any, *empty: ctypes.Structure | None) -> Any:
    """The structure that a call fills in, in the first of several versions that the driver speaks."""
    value: Any = NotSupported("this nvidia-ml-py is too old")
    for structure in empty:
        if structure is None:
            continue
        answer = funnel.read(call, gpu, ctypes.byref(structure))
        value = answer if isinstance(answer, NotSupported) else structure
        if value is structure:
            break
    return value


def _recovery(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    ids = (_FIELD_RECOVERY_ACTION, _FIELD_MEMORY_TEMPERATURE, *_FIELDS_THROTTLE)
    fields = funnel.fields(gpu, ids)
    times = {name: fields.get(key) for key, name in _FIELDS_THROTTLE.items()}
    known = {name: value / 1e9 for name, value in times.items() if isinstance(value, int | float)}
    return {
        "recovery_action": plain(fields.get(_FIELD_RECOVERY_ACTION, _NO_FIELD)),
        "temperature_memory": _memory_degrees(fields),
        "throttle_time": known or plain(times["power"] or _NO_FIELD),
    }


def _clocks(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    reasons = funnel.first(
        ("nvmlDeviceGetCurrentClocksEventReasons", gpu),  # drivers from r535 on
        ("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),
    )
    read = funnel.read
    return {
        "event_reasons": plain(reasons),
        "clock_sm": plain(read("nvmlDeviceGetClockInfo", gpu, 1)),
        "clock_sm_max": plain(read("nvmlDeviceGetMaxClockInfo", gpu, 1)),
        "clock_application": plain(read("nvmlDeviceGetApplicationsClock", gpu, 1)),
        "clock_application_default": plain(read("nvmlDeviceGetDefaultApplicationsClock", gpu, 1)),
    }


def _power(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    read = funnel.read
    return {
        "power": plain(read("nvmlDeviceGetPowerUsage", gpu), _watts),
        "power_limit": plain(read("nvmlDeviceGetEnforcedPowerLimit", gpu), _watts),
        "power_limit_default": plain(read("nvmlDeviceGetPowerManagementDefaultLimit", gpu), _watts),
        "persistence": plain(read("nvmlDeviceGetPersistenceMode", gpu), bool),
    }


def degrees(funnel: NvmlClient, gpu: Any) -> Any:
    """Temperature of the GPU in degrees Celsius, or `Missing`; drivers after r565 drop the older call."""
    return funnel.first(("nvmlDeviceGetTemperatureV", gpu, 0), ("nvmlDeviceGetTemperature", gpu, 0))


def heat(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    """Temperature of the GPU in degrees Celsius, its thresholds, and the margin to its slowdown."""
    read = funnel.read
    return {
        "temperature": plain(degrees(funnel, gpu), float),
        "temperature_slowdown": plain(read("nvmlDeviceGetTemperatureThreshold", gpu, 1), float),
        "temperature_memory_max": plain(read("nvmlDeviceGetTemperatureThreshold", gpu, 2), float),
        "temperature_max": plain(read("nvmlDeviceGetTemperatureThreshold", gpu, 3), float),
        "temperature_margin": plain(read("nvmlDeviceGetMarginTemperature", gpu), float),
    }


def memory_heat(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    """Temperature of the memory in degrees Celsius; one without a sensor answers 0."""
    return {"temperature_memory": _memory_degrees(funnel.fields(gpu, (_FIELD_MEMORY_TEMPERATURE,)))}


def _memory_degrees(fields: Mapping[int, Any]) -> Json:
    answer = fields.get(_FIELD_MEMORY_TEMPERATURE, _NO_FIELD)
    return plain(answer if answer != 0 else NotSupported("not supported by this card"))


def link(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    """Width and generation of the PCIe link, now and at most, and its replays since the driver was loaded."""
    read = funnel.read
    return {
        "pcie_width": plain(read("nvmlDeviceGetCurrPcieLinkWidth", gpu)),
        "pcie_width_max": plain(read("nvmlDeviceGetMaxPcieLinkWidth", gpu)),
        "pcie_generation": plain(read("nvmlDeviceGetCurrPcieLinkGeneration", gpu)),
        "pcie_generation_max": plain(read("nvmlDeviceGetMaxPcieLinkGeneration", gpu)),
        "pcie_replays": plain(read("nvmlDeviceGetPcieReplayCounter", gpu)),
    }


def _links(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    """NVLink ports up to the first that the card does not have; "not supported" is not "down"."""
    links: list[Json] = []
    for port in range(_MAX_LINKS):
        state = funnel.read("nvmlDeviceGetNvLinkState", gpu, port)
        if isinstance(state, NotSupported):
            if not links:
                return {"nvlinks": plain(state)}
            break
        links.append({"index": port, "active": bool(state), **_link_errors(funnel, gpu, port, bool(state))})
    return {"nvlinks": links}


def _link_errors(funnel: NvmlClient, gpu: Any, port: int, active: bool) -> dict[str, Json]:
    names = {"replay_errors": 0, "recovery_errors": 1, "crc_errors": 2}
    if not active:
        return {name: {"absent": say("the link is off")} for name in names}
    return {
        name: plain(funnel.read("nvmlDeviceGetNvLinkErrorCounter", gpu, port, counter))
        for name, counter in names.items()
    }


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


class _FabricV3(ctypes.Structure):
    """nvmlGpuFabricInfo_v3_t: the second version and a summary of the health."""

    _fields_ = [*_FabricV2._fields_, ("healthSummary", ctypes.c_uint8)]


def _fabric(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    # The version word holds the number in its top byte and the structure's size below.
    newest = _FabricV3(version=3 << 24 | ctypes.sizeof(_FabricV3))
    older = _FabricV2(version=2 << 24 | ctypes.sizeof(_FabricV2))
    info = _fill(funnel, "nvmlDeviceGetGpuFabricInfoV", gpu, newest, older)
    return {
        "fabric_state": plain(info, lambda i: i.state),
        # registration finished with an error, or the health summary says unhealthy (2)
        "fabric_unhealthy": plain(
            info, lambda i: (i.state == 3 and i.status != 0) or getattr(i, "healthSummary", 0) == 2
        ),
    }


def _use(funnel: NvmlClient, gpu: Any) -> dict[str, Json]:
    mode = plain(funnel.read("nvmlDeviceGetMigMode", gpu), lambda modes: bool(modes[0]))
    count = funnel.read("nvmlDeviceGetMaxMigDeviceCount", gpu) if mode is True else 0
    return {
        "compute_mode": plain(funnel.read("nvmlDeviceGetComputeMode", gpu)),
        "mig_enabled": mode,
        "mig_instances": plain(count, lambda slots: list(mig_devices(funnel, gpu)) if slots else []),
        "processes": processes(funnel, gpu),
    }


def mig_devices(funnel: NvmlClient, gpu: Any) -> dict[str, Any]:
    """The handles of a GPU's MIG devices by UUID; none where it is not cut."""
    count = funnel.read("nvmlDeviceGetMaxMigDeviceCount", gpu)
    found: dict[str, Any] = {}
    for slot in range(0 if isinstance(count, NotSupported) else count):
        device = funnel.read("nvmlDeviceGetMigDeviceHandleByIndex", gpu, slot)
        if not isinstance(device, NotSupported):  # else an empty slot
            named = uuid(funnel, device)
            if isinstance(named, str):
                found[named] = device
    return found


def processes(funnel: NvmlClient, gpu: Any) -> Json:
    """Pid, kind and bytes of every process on the GPU."""
    found: list[Json] = []
    missing: Json = None
    for kind, call in (("compute", "Compute"), ("graphics", "Graphics")):
        name = f"nvmlDeviceGet{call}RunningProcesses"
        # Drivers before r510 know version 2 only; the name without a version is the newest, and raises oddly.
        listed = funnel.first((f"{name}_v3", gpu), (f"{name}_v2", gpu))
        if isinstance(listed, NotSupported):
            missing = missing or plain(listed)
            continue
        if any(not 0 < process.pid <= _LARGEST_PID for process in listed):
            return {"absent": say("the driver and nvidia-ml-py disagree about the list of processes")}
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
