"""Where a synthetic job would run: this machine's cards as torch sees them, else its CPU."""

import os
import platform
from pathlib import Path
from typing import Any

from gpudoctor.errors import IncompleteError
from gpudoctor.estimate.ask_child import answered, ask_child
from gpudoctor.estimate.result import Device
from gpudoctor.lang import say
from gpudoctor.model.records import frozen


@frozen
class RunPlace:
    """Where it would run."""

    kind: str
    name: str
    bytes: int
    """Memory of one card, or of the host."""
    free: int
    """What of it nobody uses now."""
    cards: int = 0
    """Cards in the machine; 0 on the CPU."""
    capability: tuple[int, int] | None = None

    @property
    def device(self) -> Device | None:
        """The card as estimates name it; None on the CPU."""
        if self.kind == "cpu":
            return None
        return Device(name=self.name, bytes=self.bytes, capability=self.capability)


_SECONDS = 120.0
"""Torch's import and a first look at the driver; a card without persistence mode takes seconds to wake."""


def here() -> RunPlace:
    """The card that torch would use, or the CPU. Raises `IncompleteError` where the driver does not answer."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}
    # whether the kernel driver shows a card; whether torch can use it, the child will say
    if not hidden and any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")):
        what = say("torch's look for the cards (gpudoctor check examines the driver)")
        found = ask_child("gpudoctor.estimate.synthetic.local_device", {}, what, _SECONDS)
        if found["cards"]:
            capability = tuple(found.pop("capability"))
            return RunPlace(kind="cuda", capability=(int(capability[0]), int(capability[1])), **found)
    import psutil

    from gpudoctor.model import Unavailable
    from gpudoctor.vitals.host import available_memory

    memory = int(psutil.virtual_memory().total)
    try:
        free = min(available_memory(), memory)
    except Unavailable as error:
        raise IncompleteError("{error}; measure on a machine with a CUDA device", error=error) from error
    return RunPlace(kind="cpu", name=_cpu_name(), bytes=memory, free=free)


def _cpu_name() -> str:
    """The CPU's model as the system says it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    """The child: what torch sees."""
    return answered(_seen)


def _seen(_: dict[str, Any]) -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        return {"cards": 0}
    card = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    return {
        "cards": torch.cuda.device_count(), "name": card.name, "bytes": int(total), "free": int(free),
        "capability": [card.major, card.minor],
    }  # fmt: skip
