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


def _new_stream(**options):
    """`torch.vgpu.Stream()`."""
    return torch.Stream("vgpu", **options)


@contextmanager
def _stream(stream):
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)


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
        Stream=_new_stream,
        stream=_stream,
        current_stream=lambda device=None: torch.accelerator.current_stream(),
        is_current_stream_capturing=lambda: device.is_capturing(),
        memory_allocated=lambda device_=None: device.counters()["allocated"],
        max_memory_allocated=lambda device_=None: device.counters()["peak"],
    )
    torch._register_device_module("vgpu", module)
    torch.utils.generate_methods_for_privateuse1_backend()


_register()


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
            "compute": covered([span for span in spans if span[3] == 0]) / wall,
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


def covered(spans):
    """Seconds that any of the spans covers."""
    total, last = 0.0, -1.0
    for start, end, *_ in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def tell(truth):
    """Write a scenario's truth where its test reads it."""
    path = os.environ.get("GPUDOCTOR_TRUTH")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(truth, file)
