"""Torch has been imported: the hooks go in, and the thread that writes starts."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from typing import Any

from .call_sites import PROBE
from .compiling import DYNAMO, leave_us_out
from .deaths import install_exits
from .hooks import backward, calls, forward, loader, optimizer, reads, streams, windows, workers
from .probe import Probe
from .training import arguments, batches, evaluations, gradients, logged, parameters, ranks, schedules, states
from .warned import install as install_warned

HOOKS = {
    "loader": loader.install,
    "workers": workers.install,
    "forward": forward.install,
    "backward": backward.install,
    "optimizer": optimizer.install,
    "replays": streams.install_replays,
    "streams": streams.install,
    "reads": reads.install,
    "modes": forward.install_modes,
    "windows": windows.install,
    "files": calls.install_files,
    "ends": install_exits,
    "warnings": install_warned,
    "arguments": arguments.install,
    "evaluations": evaluations.install,
    "batches": batches.install,
    "logged": logged.install,
    "gradients": gradients.install,
    "parameters": parameters.install,
    "ranks": ranks.install,
    "schedules": schedules.install,
    "states": states.install,
    "calls": calls.install,
}


_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def begin(waiting: Any) -> Probe:
    """Install everything in this process."""
    # Our sitecustomize has done its work; without one of its own the program has no module of that name.
    if str(getattr(sys.modules.get("sitecustomize"), "__file__", "")).startswith(PROBE):
        del sys.modules["sitecustomize"]
    probe = Probe(sys.modules["torch"], waiting)
    for name, install in HOOKS.items():
        probe.guard.safely(f"{name} (install)", install)(probe)
    probe.guard.safely("permit", permit)(probe.settings)
    probe.when_imported(DYNAMO, leave_us_out)
    end = probe.guard.safely("end", probe.end)
    if hasattr(os, "register_at_fork"):
        # Python 3.12 and later warn at a fork beside threads; and a child must not write into our file.
        sampler = probe.sampler
        os.register_at_fork(before=sampler.pause, after_in_parent=sampler.resume, after_in_child=probe.forked)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:  # a child of multiprocessing ends without atexit
            util.register_after_fork(probe, lambda _: util.Finalize(None, end, exitpriority=-1000))
    probe.steps.before.append(probe.guard.safely("memory", probe.memory.fill))
    probe.steps.after.append(probe.guard.reading("numerics", probe.numerics.ended))
    probe.steps.after.append(probe.guard.reading("memory", probe.memory.ended))
    if probe.windows is not None:
        probe.steps.after.append(probe.guard.safely("windows", probe.windows.ended))
    probe.steps.after.append(probe.guard.safely("known", probe.known.ended))
    probe.facts = Facts(probe)
    probe.steps.after.append(probe.guard.reading("facts", probe.facts.stepped, subclasses=True))
    atexit.register(end)
    if os.environ.get("GPUDOCTOR_OVERRIDES"):
        from . import overrides  # only in a trial

        probe.guard.safely("overrides", overrides.install)(probe)
    return probe


def permit(settings: dict[str, Any]) -> None:
    """`gpudoctor run --allow-watch`: let every process of this user trace this one.

    That is what `ptrace_scope=0` would mean for it, and nothing on a kernel without Yama. A fork does not
    inherit it.
    """
    if settings.get("allow_watch") and sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


class Facts:
    """What is told of models, optimizers, loaders and torch once training runs."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.again()

    def again(self) -> None:
        """For a new recording nothing has been told."""
        self._told: dict[str, Any] = {}
        self._next = 1

    def stepped(self) -> None:
        """A step has ended."""
        index = self._probe.steps.index
        if index < self._next:
            return
        self._next = index + 1 if index < 2 else 2 * index
        self._probe.models.tell()
        if self._probe.loaders is not None:
            self._probe.loaders.trained()
        if index <= 128:
            facts = {**torch_facts(self._probe.torch), **self._probe.models.parallel_facts()}
            if facts != self._told:
                self._told = facts
                self._probe.record("torch", facts)
        if index >= 32:
            self._probe.models.tell_modes()
            self._probe.numerics.gradients.tell_uncleared()


def torch_facts(torch: Any) -> dict[str, Any]:
    """Most of the `torch` record. A device that is not in use is not asked: that would start it."""
    cuda = torch.cuda.is_initialized()
    device = torch.cuda.get_device_properties(torch.cuda.current_device()) if cuda else None
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "device": device.name if device is not None else None,
        "device_bytes": device.total_memory if device is not None else None,
        "capability": [device.major, device.minor] if device is not None else None,
        "threads": torch.get_num_threads(),
        "tf32": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "backend": _backend(torch),
    }


def _backend(torch: Any) -> str | None:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return str(distributed.get_backend())
    return None
