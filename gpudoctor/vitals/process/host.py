"""The machine beside the watched job: what its meter has shown, as histories."""

from typing import Any

from gpudoctor.model.signs.process import HostWindow
from gpudoctor.vitals.host.meter import HostMeter
from gpudoctor.vitals.process.time_series import DownsampledSeries, RollingSeries

_RATES = ("cpu", "io_wait", "disk_read", "disk_write", "net_rx", "net_tx")


class HostHistory:
    """One row a tick."""

    def __init__(self, pid: int) -> None:
        self._meter = HostMeter(pid)
        limits = self._meter.limits()
        self._machine_cpus = float(limits["machine_cpus"] or 1)
        self._cpus = float(limits["cpus"] or 1)
        self._recent = {name: RollingSeries() for name in (*_RATES, "swap")}
        self._memory = DownsampledSeries()

    def tick(self, t: float) -> HostWindow:
        """The machine now."""
        sample = self._meter.sample(t)
        self._memory.add(t, sample["memory"])
        for name, history in self._recent.items():
            history.add(t, sample.get(name))
        made: dict[str, Any] = {name: history.series() for name, history in self._recent.items()}
        return HostWindow(
            cpus=self._cpus,
            machine_cpus=self._machine_cpus,
            memory_total=self._meter.memory_total,
            memory=self._memory.series(),
            **made,
        )
