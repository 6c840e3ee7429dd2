"""Importing this gives torch a device `vgpu`: an asynchronous device with a clock of its own, without hardware.

`GPUDOCTOR_VIRTUAL_DEVICE` names the built extension. The device computes on the host at once; what an operator
would cost is added to a clock, and whoever asks for a value sleeps until that clock is reached. See `device.cpp`.
"""

import importlib.util
import json
import os
import time
import types
from contextlib import contextmanager

import torch


def _extension():
    path = os.environ["GPUDOCTOR_VIRTUAL_DEVICE"]
    spec = importlib.util.spec_from_file_location("virtual_device_c", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch.utils.rename_privateuse1_backend("vgpu")
device = _extension()


def _event(enable_timing=False, **options):
    """`torch.vgpu.Event(enable_timing=True)`, as torch.cuda has it; elapsed_time takes no subclass."""
    return torch.Event("vgpu", enable_timing=enable_timing, **options)


class _Stream(torch.Stream):
    """`torch.vgpu.Stream()`, with waits in Python, as torch.cuda's has them."""

    def __new__(cls, **options):
        return super().__new__(cls, **(options or {"device": "vgpu"}))

    def wait_event(self, event):
        super().wait_event(event)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())


def _current_stream(device=None):
    now = torch.accelerator.current_stream()
    return _Stream(stream_id=now.stream_id, device_index=now.device_index, device_type=now.device_type)


@contextmanager
def _stream(stream):
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)


def meet():
    """Make this process one of several ranks, whose collectives are the device's; returns which."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    folder = os.path.dirname(os.environ["GPUDOCTOR_TRUTH"])
    torch.distributed.Backend.register_backend("vcl", device.group, devices=["vgpu"])
    torch.distributed.init_process_group("vcl", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    return rank


def _register():
    module = types.ModuleType("torch.vgpu")
    module.__dict__.update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda device: None,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda seed: None,
        synchronize=lambda device=None: torch.accelerator.synchronize(),
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        Event=_event,
        Stream=_Stream,
        stream=_stream,
        current_stream=_current_stream,
        is_current_stream_capturing=lambda: device.is_capturing(),
        memory_allocated=lambda device_=None: device.counters()["allocated"],
        max_memory_allocated=lambda device_=None: device.counters()["peak"],
    )
    torch._register_device_module("vgpu", module)
    torch.utils.generate_methods_for_privateuse1_backend()


_register()


KERNEL, COPY, COLLECTIVE, LATE_RANK = range(4)
"""Kinds of spans; the last one is a collective that waits for another rank."""


class Truth:
    """What the device did between `begin` and `end`: seconds, and counts of launches, copies and waits."""

    loader = 0.0
    """Seconds that the program has waited for its loader, as it says."""

    def begin(self):
        """Start when the device is idle."""
        torch.accelerator.synchronize()
        device.keep_spans(True)
        self._counters = device.counters()
        self.loader = 0.0
        self._at = time.perf_counter()

    def end(self, steps):
        """The truth of so many steps, a step; the device has done all of it."""
        torch.accelerator.synchronize()
        wall = time.perf_counter() - self._at
        now = device.counters()
        moved = {name: now[name] - self._counters[name] for name in now}
        spans = device.spans()
        device.keep_spans(False)
        return {
            "step": wall / steps,
            "busy": covered(spans) / wall,
            "compute": covered([span for span in spans if span[3] == KERNEL]) / wall,
            # Of collectives: while other work is done, while none is, and while the last rank is awaited.
            "hidden": hidden(spans, COLLECTIVE) / wall,
            "exposed": exposed(spans, COLLECTIVE) / wall,
            "awaited": exposed(spans, LATE_RANK) / wall,
            # Of copies: while nothing else is done, and while other work is.
            "copying": exposed(spans, COPY) / wall,
            "hidden_copies": hidden(spans, COPY) / wall,
            "waits": moved["waits"] / wall,
            "loader": self.loader / wall,
            "launches": moved["launches"] / steps,
            "copies": moved["copies"] / steps,
            "syncs": moved["syncs"] / steps,
            "events": moved["events"] / steps,
            "allocations": moved["allocations"] / steps,
            # Of all steps together: what became part of a graph.
            "captured": moved["captured"],
            # Whatever is cured, the device's own work remains.
            "bound": wall / max(covered(spans), 1e-9),
        }


def exposed(spans, kind):
    """Seconds of spans of a kind in which the device does nothing else."""
    others = [span for span in spans if span[3] in (KERNEL, COPY) and span[3] != kind]
    return covered(others + [span for span in spans if span[3] == kind]) - covered(others)


def hidden(spans, kind):
    """Seconds of spans of a kind in which the device does something else, too."""
    return covered([span for span in spans if span[3] == kind]) - exposed(spans, kind)


def covered(spans):
    """Seconds that any of the spans covers."""
    total, last = 0.0, -1.0
    for start, end, *_ in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def tell(truth):
    """Write a scenario's truth where its test reads it; `{rank}` in its path is this process's."""
    path = os.environ.get("GPUDOCTOR_TRUTH")
    if path:
        path = path.format(rank=os.environ.get("RANK", "0"))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(truth, file)
