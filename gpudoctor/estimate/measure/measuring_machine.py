"""Where a measurement runs, and what the driver counts for it."""

import os
import platform
from pathlib import Path
from typing import Any

from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say

_PACKAGES = ("torch", "transformers", "peft", "bitsandbytes")


def here(kind: str) -> dict[str, Any]:
    """The device that will measure. Raises `IncompleteError` where it is not there."""
    import torch

    if kind == "cuda":
        if not torch.cuda.is_available():
            raise IncompleteError(
                say(
                    "torch {version} finds no CUDA device here; set CUDA_VISIBLE_DEVICES=-1 to measure on the CPU",
                    version=torch.__version__,
                )
            )
        card = torch.cuda.get_device_properties(0)
        return {
            "kind": "cuda", "name": card.name, "bytes": card.total_memory, "gpus": torch.cuda.device_count(),
            "capability": [card.major, card.minor], "versions": versions(),
        }  # fmt: skip
    import psutil

    memory = int(psutil.virtual_memory().total)
    return {
        "kind": "cpu", "name": cpu_name(), "bytes": memory, "gpus": 0, "capability": None,
        "versions": versions(),
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Installed releases of what decides the bytes."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """The CPU's model as the system says it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def free_host_bytes() -> int:
    """Host memory that a new process can have. Raises `IncompleteError` if the system does not report it."""
    from gpudoctor.model import Unavailable
    from gpudoctor.vitals.host import available_memory

    try:
        return available_memory()
    except Unavailable as error:
        raise IncompleteError(say("{error}; measure on a machine with a CUDA device", error=error)) from error


def has_cuda() -> bool:
    """Whether the kernel driver shows a card; whether torch can use it, the child will say."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}
    return not hidden and any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"))


def cards_used() -> dict[str, int]:
    """Bytes in use on every card by its UUID, from NVML; empty where that cannot be read."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
        return {
            _text(pynvml.nvmlDeviceGetUUID(each)): int(pynvml.nvmlDeviceGetMemoryInfo(each).used) for each in handles
        }
    except Exception:  # noqa: BLE001 - a missing library, driver or permission: the figure is then absent
        return {}


def card_reading(before: dict[str, int]) -> dict[str, Any]:
    """What torch's allocator reserved at most, cuBLAS workspaces, and what the driver counts for us."""
    import torch

    torch.cuda.synchronize()
    reserved_most, reserved = torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved()
    used, how = _used(before)
    return {
        "reserved": reserved_most, "reserved_then": reserved, "used": used, "used_how": how,
        "workspace": _workspace(), "driver": _driver(),
    }  # fmt: skip


def _used(before: dict[str, int]) -> tuple[int | None, str]:
    """Bytes that the driver counts for this process; else how much more the card holds than before."""
    import torch

    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    try:
        import pynvml

        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == os.getpid() and process.usedGpuMemory:
                return int(process.usedGpuMemory), "this process, by NVML"
        now = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except Exception:  # noqa: BLE001 - as above
        return None, ""
    return (now - before[uuid], "the card's change while it ran, by NVML") if uuid in before else (None, "")


def _workspace() -> int | None:
    """Bytes of cuBLAS workspaces in the allocator: what clearing them gives back."""
    import torch

    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is None:
        return None
    with_them = torch.cuda.memory_allocated()
    clear()
    return int(with_them - torch.cuda.memory_allocated())


def _driver() -> str | None:
    try:
        import pynvml

        return _text(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 - as above
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
