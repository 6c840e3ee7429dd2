"""Older releases of nvidia-ml-py, made of the present one: what came later is hidden, what was otherwise is put back.

The facts were read from the releases themselves (`pip download --no-deps nvidia-ml-py==X`, then the `def` and `class`
lines of pynvml.py), in November 2026; nothing of them is kept here.
"""

import importlib.util
from pathlib import Path

_EVENT_REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
_V2 = ("nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v2")
_V3 = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")
_SRAM = ("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t")
_LATER = ("nvmlDeviceGetMarginTemperature", "nvmlDeviceGetTemperatureV")
_FABRIC = ("nvmlDeviceGetGpuFabricInfoV",)
_MISMATCH = ("NVMLLibraryMismatchError",)
_GPM = ("nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMetricsGet",
        "c_nvmlGpmMetricsGet_t", "NVML_GPM_METRICS_GET_VERSION")  # fmt: skip

LACKS: dict[str, tuple[str, ...]] = {
    "11.450.129": (*_V3, *_SRAM, *_LATER, *_FABRIC, *_MISMATCH, *_GPM, _EVENT_REASONS),
    "11.525.150": (*_V2, *_SRAM, *_LATER, *_FABRIC, *_MISMATCH, _EVENT_REASONS),
    "12.535.77": (*_V2, *_SRAM, *_LATER, *_FABRIC, *_MISMATCH),
    "12.535.161": (*_V2, *_LATER, *_FABRIC, *_MISMATCH),
    "12.550.52": _LATER,
    "present": (),
}
"""Release to the names, of those that gpudoctor uses, that it does not have."""
BYTES = ("11.450.129",)
"""Releases whose texts are bytes, and whose nvmlDeviceGetMemoryInfo takes no version."""
WIDE = ("12.535.77",)
"""Releases whose record of a process has a field more, as drivers 535.43 to 535.86 have it."""

_BYTES = """
def _as_bytes(call):
    def answered(*arguments):
        answer = call(*arguments)
        return answer.encode() if isinstance(answer, str) else answer
    return answered
for _name in ("nvmlSystemGetDriverVersion", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetVbiosVersion"):
    globals()[_name] = _as_bytes(getattr(_real, _name))
def nvmlDeviceGetMemoryInfo(handle):
    return _real.nvmlDeviceGetMemoryInfo(handle)
"""
_WIDE = """
class _Process(_real._PrintableStructure):
    _fields_ = [("pid", _real.c_uint), ("usedGpuMemory", _real.c_ulonglong), ("gpuInstanceId", _real.c_uint),
                ("computeInstanceId", _real.c_uint), ("usedGpuCcProtectedMemory", _real.c_ulonglong)]
for _name in [name for name in vars(_real) if name.startswith("c_nvmlProcessInfo")]:
    setattr(_real, _name, _Process)
"""


def older_binding(folder: Path, release: str) -> Path:
    """A folder with a module `pynvml` of that release; to stand first on a search path."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None and found.origin is not None
    text = f"""
import importlib.util as _util
import sys as _sys
_spec = _util.spec_from_file_location("_present_pynvml", {found.origin!r})
_real = _sys.modules["_present_pynvml"] = _util.module_from_spec(_spec)
_spec.loader.exec_module(_real)
{_WIDE if release in WIDE else ""}
globals().update({{name: value for name, value in vars(_real).items() if not name.startswith("__")}})
{_BYTES if release in BYTES else ""}
for _name in {LACKS[release]!r}:
    globals().pop(_name)
"""
    place = folder / f"binding-{release}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "pynvml.py").write_text(text)
    return place
