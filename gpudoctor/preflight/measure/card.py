"""One unit alone: products, bandwidth of its memory, transfers from and to the host, equal values."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from gpudoctor.preflight.measure.timing import figure, repeated
from gpudoctor.preflight.worker import load_torch

CPU_SIDE = 1024
CPU_COPY = 64 << 20
CARD_SIDE = 8192
CARD_COPY = 1 << 30
HOST_COPY = 256 << 20
DIGEST_SIDE = 1024
"""Rows and columns of the products whose values are compared. Whole numbers up to 127 make every partial sum
exact in fp32 (127 * 127 * 1024 < 2^24), so that no order of the sums changes a bit."""


def examine(work: Any, _: Any) -> Any:
    """Figures and digests of one unit."""
    torch = load_torch()
    cpu = work["device"] == "cpu"
    device = _device(torch, work)
    answer = describe(torch, device)
    if cpu:
        torch.set_num_threads(_usable_cpus())
    else:
        torch.cuda.set_device(device)
    name = _kind(torch, device)
    share = work["seconds"] / (2.5 if cpu else 4.0)
    answer["digests"] = {f"{name} {DIGEST_SIDE}": _digests(torch, device, name)}
    figures = [_product(torch, device, name, share), _memory(torch, device, share)]
    if not cpu:
        figures += _host_copies(torch, device, share)
    answer["figures"] = figures
    return answer


def burn(work: Any, _: Any) -> Any:
    """Figures of load that lasts: products over and over, the first part beside the last."""
    torch = load_torch()
    cpu = work["device"] == "cpu"
    device = _device(torch, work)
    name = _kind(torch, device)
    if cpu:
        torch.set_num_threads(_usable_cpus())
    part = max(1.0, work["seconds"] / 4)
    figures = []
    digests = []
    for when, seconds in (("first", part), ("", max(0.0, work["seconds"] - 2 * part)), ("last", part)):
        if seconds:
            load = _product(torch, device, name, seconds)
            digests += _digests(torch, device, name)
            if when:
                figures.append(dict(load, when=when))
    return {"figures": figures, "digests": {f"{name} {DIGEST_SIDE}": digests}}


def describe(torch: Any, device: Any) -> Any:
    """Name, bus and UUID of a unit."""
    if _is_cpu(device):
        return {"device": "cpu"}
    known = torch.cuda.get_device_properties(device)
    bus = ""
    if hasattr(known, "pci_bus_id"):
        bus = f"{known.pci_domain_id:08X}:{known.pci_bus_id:02X}:{known.pci_device_id:02X}.0"
    uuid = str(getattr(known, "uuid", ""))
    uuid = uuid if not uuid or uuid.startswith("GPU-") else "GPU-" + uuid
    return {"device": "cuda", "name": known.name, "bus_id": bus, "uuid": uuid}


def _device(torch: Any, work: Any) -> Any:
    return torch.device("cpu") if work["device"] == "cpu" else torch.device("cuda", work["local"])


def _is_cpu(device: Any) -> bool:
    return bool(device.type == "cpu")


def _kind(torch: Any, device: Any) -> Any:
    """Numbers whose products are measured: those that a card is used with."""
    if _is_cpu(device):
        return "fp32"
    return "fp16" if torch.cuda.get_device_capability(device) < (8, 0) else "bf16"


def _product(torch: Any, device: Any, name: Any, seconds: Any) -> Any:
    """Operations a second of square products."""
    side = CPU_SIDE if _is_cpu(device) else CARD_SIDE
    multiply = _multiplier(torch, device, name, side)
    multiply()
    times = _timed(torch, device, multiply, seconds)
    return figure("matmul", times, 2.0 * side**3, dtype=name)


def _multiplier(torch: Any, device: Any, name: Any, side: Any, seed: Any = 7) -> Any:
    """A function that multiplies two matrices of whole numbers, equal on each unit."""
    most = 15 if name == "fp16" else 127
    numbers = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(-most, most + 1, (side, side), generator=numbers, dtype=torch.int16) for _ in range(2))
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]
    left, right = a.to(kind).to(device), b.to(kind).to(device)
    return lambda: torch.mm(left, right)


def _timed(torch: Any, device: Any, once: Any, seconds: Any) -> Any:
    """Seconds of each call, by the device's own clock where it has one."""
    if _is_cpu(device):
        return repeated(once, seconds)

    def timed() -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_INNER):
            once()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / _INNER

    return repeated(timed, seconds)


_INNER = 8
"""Calls between two marks on a card: a launch costs microseconds."""


def _digests(torch: Any, device: Any, name: Any) -> Any:
    """A digest of each repetition of one product: equal wherever nothing is corrupted."""
    multiply = _multiplier(torch, device, name, DIGEST_SIDE, seed=11)
    return [digest(torch, multiply()) for _ in range(3)]


def digest(torch: Any, values: Any) -> Any:
    """A digest of the bits of a tensor, by sums that no order changes."""
    bits = values.contiguous().view(torch.int32 if values.element_size() == 4 else torch.int16).reshape(-1)
    bits = bits.to(torch.int64)
    places = torch.arange(1, bits.numel() + 1, device=bits.device, dtype=torch.int64)
    sums = (int(bits.sum()), int((bits * (2 * places + 1)).sum()))
    return hashlib.sha256(repr(sums).encode()).hexdigest()[:16]


def _memory(torch: Any, device: Any, seconds: Any) -> Any:
    """Bytes read and written a second by a copy inside the memory of a unit."""
    size = CPU_COPY
    if not _is_cpu(device):
        free, _ = torch.cuda.mem_get_info(device)
        size = max(1 << 20, min(CARD_COPY, free // 4))
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    times = _timed(torch, device, lambda: target.copy_(source), seconds)
    return figure("memory_bandwidth", times, 2.0 * size, payload=size)


def _host_copies(torch: Any, device: Any, seconds: Any) -> Any:
    """Bytes a second from pinned memory of the host, and to it."""
    host = torch.ones(HOST_COPY, dtype=torch.uint8).pin_memory()
    there = torch.empty(HOST_COPY, dtype=torch.uint8, device=device)
    found = []
    for quantity, target, source in (("host_to_device", there, host), ("device_to_host", host, there)):

        def once(target: Any = target, source: Any = source) -> Any:
            target.copy_(source, non_blocking=True)

        once()
        times = _timed(torch, device, once, seconds / 2)
        found.append(figure(quantity, times, float(HOST_COPY), payload=HOST_COPY))
    return found


def _usable_cpus() -> Any:
    """CPUs that this process may use; a launcher's OMP_NUM_THREADS is meant for one rank of several."""
    return len(os.sched_getaffinity(0))
