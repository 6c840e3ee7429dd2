"""What an event of a profiler trace is, by its category and name.

Kineto's categories are lower-case words since 2021 (`cpu_op`, `cuda_runtime`, `kernel`); before, they were
`Operator`, `Runtime`, `Kernel`. The autograd profiler of torch 1 had none, and named its processes instead.
Format: github.com/pytorch/kineto, `libkineto/src/output_json.cpp`.
"""

import re
import sys
from collections.abc import Mapping
from typing import Any

from gpudoctor.vitals.recording.chrome import Event

FAR = 1e18
"""Microseconds that no clock shows."""
OPERATOR, MARK, RUNTIME, PYTHON = "operator", "mark", "runtime", "python"
KERNEL, COPY, FILL = "kernel", "copy", "fill"
DEVICE = (KERNEL, COPY, FILL)
"""What a device does."""
_KINDS = {
    "cpu_op": OPERATOR, "operator": OPERATOR, "cpu_instant_event": OPERATOR, "user_annotation": MARK,
    "python_function": PYTHON, "kernel": KERNEL, "concurrent_kernel": KERNEL, "gpu_memcpy": COPY,
    "memcpy": COPY, "gpu_memset": FILL, "memset": FILL,
}  # fmt: skip
_OLD_PROCESSES = {"CPU functions": OPERATOR, "CUDA functions": KERNEL}
_RUNTIME = re.compile(r"(?:\w+_)?(?:runtime|driver)", re.IGNORECASE)

STEP = re.compile(r"ProfilerStep#(\d{1,15})")
LOADER = "enumerate(DataLoader)"
OPTIMIZER = "Optimizer.step#"
_OPTIMIZERS = (OPTIMIZER, "Optimizer.zero_grad#")
_BACKWARD = re.compile(r"autograd::engine|torch::autograd::|[A-Za-z0-9_]*[a-z0-9_]Backward[0-9]*$")
READ = "aten::_local_scalar_dense"
_COLLECTIVE_CALL = re.compile(r"(nccl|gloo|mpi|ucc|c10d|record_param_comms)\b", re.IGNORECASE)
_COLLECTIVE_KERNEL = re.compile(
    r"nccl|rccl|mscclpp|mscclkernel|nvshmem|cross_device_reduce|multimem_all_", re.IGNORECASE
)
WAIT = re.compile(r"(?:cuda|hip|cu|xpu|musa)(?:Stream|Device|Event|Ctx)Synchronize")
COPY_CALL = re.compile(r"(?:cuda|hip|cu|xpu|musa)Memcpy")
LAUNCH_CALL = re.compile(r"(?:cuda|hip|cu|xpu|musa)(?:Ext)?(?:Module)?(?:Launch|GraphLaunch)")
_TO_DEVICE = re.compile(r"HtoD|HostToDevice")
_TO_HOST = re.compile(r"DtoH|DeviceToHost")

_FUNCTION = re.compile(r"(?P<path>[^<(][^(]*\.py)\((?P<line>[0-9]{1,9})\): (?P<name>.+)")
_LIBRARIES = (
    "torch/", "site-packages/", "dist-packages/", "numpy/", "accelerate/", "transformers/", "lightning/",
    "pytorch_lightning/", "deepspeed/", "importlib/", "multiprocessing/", "concurrent/",
)  # fmt: skip


def timed(event: Event) -> bool:
    """Whether an event has a beginning and a length that can be."""
    return event.get("ph") == "X" and _number(event.get("ts"), -FAR) and _number(event.get("dur"), 0.0)


def _number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < FAR


def kind_of(event: Event) -> str | None:
    """What made the event; None for what counts as no work (`gpu_user_annotation`, `Trace`, `overhead`)."""
    category = event.get("cat")
    if not isinstance(category, str):
        process = event.get("pid")
        return _OLD_PROCESSES.get(process) if isinstance(process, str) else None
    return _KINDS.get(category.lower()) or (RUNTIME if _RUNTIME.fullmatch(category) else None)


def phase_of(kind: str, name: str) -> str | None:
    """The phase of the thread on which an event of the host stands; None where it says none."""
    if kind not in (OPERATOR, MARK):
        return None
    if name.startswith(LOADER):
        return "data_wait"
    if name.startswith(_OPTIMIZERS):
        return "optimizer"
    if _COLLECTIVE_CALL.match(name):
        return "collective"
    if kind == OPERATOR and not STEP.match(name) and not is_backward(name):
        return "forward"
    return None


def is_backward(operator: str) -> bool:
    """Whether an operator is one of autograd's: before 2022 its engine had no events of its own."""
    return _BACKWARD.match(operator) is not None


def is_collective(kernel: str) -> bool:
    """Whether a kernel belongs to a collective, by its name."""
    return _COLLECTIVE_KERNEL.search(kernel) is not None


def direction(name: str) -> str | None:
    """Where a copy of the device goes: `device`, `host`, None for one that stays."""
    if _TO_DEVICE.search(name):
        return "device"
    return "host" if _TO_HOST.search(name) else None


def correlation(event: Event) -> int | None:
    """The number that a call of the runtime and the work that it launched share; None where there is none."""
    given = event.get("args")
    number = given.get("correlation") if isinstance(given, Mapping) else None
    return number if isinstance(number, int) else None


def user_function(name: str) -> tuple[str, int, str] | None:
    """Path, first line and name of a function of the user's own code."""
    match = _FUNCTION.fullmatch(name) if ".py(" in name else None
    if match is None or any(folder in match["path"] for folder in _LIBRARIES):
        return None
    root = match["path"].partition("/")[0].removesuffix(".py")
    return None if root in sys.stdlib_module_names else (match["path"], int(match["line"]), match["name"])


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the head of a trace says of its device."""
    devices = document.get("deviceProperties")
    first = as_object(devices[0]) if isinstance(devices, list) and devices else {}
    return {
        "device": first.get("name"),
        "device_bytes": first.get("totalGlobalMem"),
        "backend": as_object(document.get("distributedInfo")).get("backend"),
    }


def as_object(value: object) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
