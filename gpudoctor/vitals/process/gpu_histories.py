"""The GPUs as the watch sees them: histories for the window, and the survey that hardware checks read."""

import os
from collections import deque
from dataclasses import replace
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.signs.gpu import DriverState, Gpu, GpuSurvey, LostGpu
from gpudoctor.model.signs.process import DeviceEvent, Gap, GpuUser, GpuWindow
from gpudoctor.model.unavailable import Absent, Reading, known
from gpudoctor.text import duration
from gpudoctor.vitals.nvml import bus, decode
from gpudoctor.vitals.nvml.child_feed import ChildFeed
from gpudoctor.vitals.process.time_series import RollingSeries

INTERVAL = 1.0
SURVEY_EVERY = 30
"""Samples between two readings of everything: error counters, links, limits."""
SILENCE = 8.0
"""Seconds without a record after which the driver hangs."""
START = 30.0
"""Seconds that it may take to start: waking 8 cards without persistence mode takes more than 20."""
_LONGEST = 4 << 20
_HISTORIES = {"busy": "util", "sm": "sm", "memory": "memory", "power": "power", "temperature": "temperature"}
"""Field of the window to the sample's name."""
_NOW = {
    "util": "utilization",
    "memory": "memory_used",
    "power": "power",
    "temperature": "temperature",
    "reasons": "event_reasons",
}
"""The sample's name to the field of `Gpu`."""
_WHOLE = frozenset({"memory_used", "event_reasons"})


class _Card:
    """One GPU's history."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.histories = {name: RollingSeries() for name in _HISTORIES}
        self.reasons: deque[int] = deque(maxlen=120)
        self.processes: list[dict[str, Any]] = []
        self.static: Gpu | None = None
        self.lost = ""
        self.newest: dict[str, Any] = {}

    def take(self, t: float, sample: dict[str, Any]) -> None:
        """One sample of the child."""
        self.newest = sample
        self.lost = str(sample.get("lost") or "")
        for name, key in _HISTORIES.items():
            self.histories[name].add(t, sample.get(key))
        if "reasons" in sample:
            self.reasons.append(int(sample["reasons"]))
        listed = sample.get("processes")
        self.processes = listed if isinstance(listed, list) else []

    def window(self) -> GpuWindow:
        """What it has shown."""
        counts: dict[int, int] = {}
        for mask in self.reasons:
            for bit in range(16):
                if mask >> bit & 1:
                    counts[1 << bit] = counts.get(1 << bit, 0) + 1
        static = self.static
        return GpuWindow(
            index=self.index,
            name=static.name if static else "GPU",
            memory_total=known(static.memory_total) if static else None,
            power_limit=known(static.power_limit) if static else None,
            reasons={bit: count / len(self.reasons) for bit, count in counts.items()},
            users=tuple(map(_user, self.processes)),
            lost=self.lost,
            **{name: history.series() for name, history in self.histories.items()},
        )

    def now(self) -> Gpu | None:
        """The last full reading with the newest sample laid over it."""
        if self.static is None or self.lost:
            return None
        fresh = {field: self.newest[name] for name, field in _NOW.items() if self.newest.get(name) is not None}
        whole = {field: int(fresh[field]) for field in _WHOLE & fresh.keys()}
        return replace(self.static, **(fresh | whole))


class GpuFeed:
    """Reads the child without ever waiting for it."""

    def __init__(self, clock_zero: float, interval: float = INTERVAL) -> None:
        self.events: list[DeviceEvent] = []
        self._interval, self._heard = interval, clock_zero
        self._cards: dict[int, _Card] = {}
        self._failed: dict[str, Any] | None = None
        self._version: Reading[str] = Absent("the driver did not start")
        self._tree = bus.tree_of(os.environ)
        self._child: ChildFeed | None = None
        try:
            self._child = ChildFeed("watching", str(interval), str(SURVEY_EVERY), longest=_LONGEST)
        except OSError as error:
            self._failed = {"state": "FAILED", "error": str(error)}

    def tick(self, t: float) -> None:
        """Take in what the child has said since."""
        for record in self._child.records() if self._child is not None else ():
            self._heard = t
            kind = record.get("record")
            if kind == "sample":
                for sample in record["gpus"]:
                    self._card(int(sample["index"])).take(t, sample)
            elif kind == "survey":
                self._card(int(record["index"])).static = decode.gpu(
                    record, lambda pid: bus.process_name(self._tree, pid), frozenset()
                )
            elif kind == "lost":
                self._card(int(record["index"])).lost = str(record["error"])
            elif kind == "event":
                self.events.append(
                    DeviceEvent(
                        t=t,
                        gpu=int(record["index"]),
                        kind=str(record["kind"]),
                        number=int(record["number"]),
                        pci_address=str(record.get("address") or ""),
                    )
                )
            elif kind == "driver":
                self._version = decode.reading(record.get("version"), str)
            elif kind == "failed":
                self._failed = record

    def windows(self) -> tuple[GpuWindow, ...]:
        """Every GPU."""
        return tuple(card.window() for _, card in sorted(self._cards.items()))

    def survey(self, ours: frozenset[int], t: float) -> GpuSurvey:
        """The GPUs as checks of the hardware read them."""
        state, words = self._state(t)
        now = [(card, card.now()) for _, card in sorted(self._cards.items())]
        return GpuSurvey(
            driver=state,
            driver_error=words,
            driver_version=self._version,
            cuda_driver_version=Absent("not asked"),
            kernel_module_version=Absent("not asked"),
            pci_devices=(),
            device_nodes=(),
            gpus=tuple(_mark(gpu, ours) for _, gpu in now if gpu is not None),
            lost=tuple(LostGpu(index=card.index, error=card.lost) for card, _ in now if card.lost),
            pids_visible=self.pids_visible,
        )

    @property
    def pids_visible(self) -> bool:
        """False in a container's own pid namespace: the driver's pids are the host's."""
        return bus.pids_visible(self._tree)

    def gaps(self, t: float, *, used: bool = False) -> list[Gap]:
        """What of the GPUs cannot be seen, and why; `used`: whether the job has one open."""
        state, words = self._state(t)
        reason = fix = ""
        if state is DriverState.NO_LIBRARY:
            reason = say("no NVIDIA driver library on this machine")
            fix = say("watch from the host") if used else ""
        elif state is not DriverState.READY:
            reason = say("NVIDIA driver: {state} ({words})", state=state.value, words=words)
            fix = "gpudoctor check"
        elif self._cards and not self.pids_visible:
            reason = say(
                "in this container the driver reports host pids: gpudoctor cannot map GPU processes to the job"
            )
            fix = say("watch from the host")
        return [Gap(panel="gpu", reason=reason, fix=fix)] if reason else []

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()

    def _state(self, t: float) -> tuple[DriverState, str]:
        if self._failed is not None:
            state = str(self._failed.get("state", "FAILED"))
            name = state if state in DriverState.__members__ else "FAILED"
            return DriverState[name], str(self._failed.get("error") or say("no reason given"))
        patience = SILENCE if self._cards else START
        silent = t - self._heard
        if silent > patience * max(1.0, self._interval):
            return DriverState.HUNG, say("no answer for {silent}", silent=duration(silent))
        if self._child is not None and self._child.ended:
            return DriverState.CRASHED, say("its reader ended with code {code}", code=self._child.code)
        return DriverState.READY, ""

    def _card(self, index: int) -> _Card:
        return self._cards.setdefault(index, _Card(index))


def _user(process: dict[str, Any]) -> GpuUser:
    memory = process.get("memory")
    return GpuUser(pid=int(process["pid"]), memory=memory if isinstance(memory, int) else None)


def _mark(gpu: Gpu, ours: frozenset[int]) -> Gpu:
    if isinstance(gpu.processes, Absent):
        return gpu
    return replace(gpu, processes=tuple(replace(process, ours=process.pid in ours) for process in gpu.processes))
