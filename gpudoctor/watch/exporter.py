"""A watch as metrics for Prometheus, on this machine's loopback unless the user says otherwise."""

from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.process import LIVE_PHASES
from gpudoctor.model.watch import Tick

LOOPBACK = "127.0.0.1"


class Exporter:
    """Serves the newest tick under /metrics. Raises `UsageError` when it cannot."""

    def __init__(self, port: int, address: str = LOOPBACK) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise UsageError("--prometheus needs prometheus_client: pip install prometheus-client") from None
        registry = prometheus.CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Any:
            return prometheus.Gauge(f"gpudoctor_{name}", text, labels, registry=registry)

        self._phase = gauge("phase_share", "Share of the training loop's time by phase (0..1)", "phase")
        self._samples = gauge("stack_samples", "Stack samples in the window")
        self._lost = gauge("stack_samples_lost", "Stack samples in the window that failed")
        self._rank_cpu = gauge("rank_cpu_cores", "Busy cores of a rank", "rank")
        self._rank_rss = gauge("rank_tree_resident_bytes", "Resident bytes of a rank and its workers", "rank")
        self._workers = gauge("rank_workers", "Loader workers of a rank", "rank")
        self._alive = gauge("rank_alive", "1 while a rank runs", "rank")
        self._gpu = {
            name: gauge(f"gpu_{name}", text, "gpu")
            for name, text in (
                ("busy_ratio", "Share of time with any kernel"),
                ("sm_ratio", "Share of SMs busy (GPM)"),
                ("memory_bytes", "Bytes used"),
                ("power_watts", "Watts drawn"),
                ("temperature_celsius", "Degrees Celsius"),
            )
        }
        self._finding = gauge("finding", "1 for each finding", "code", "name", "severity", "subject")
        try:
            self._server, self._thread = prometheus.start_http_server(port, addr=address, registry=registry)
        except (OSError, OverflowError) as error:
            raise UsageError("--prometheus {port}: {error}", port=port, error=error) from error

    def take(self, tick: Tick) -> None:
        """Put a tick in the place of the last one."""
        window = tick.window
        total = sum(window.phases.values())
        for phase in LIVE_PHASES:
            self._phase.labels(phase).set(window.phases.get(phase, 0) / total if total else float("nan"))
        self._samples.set(window.samples)
        self._lost.set(window.lost)
        for place, rank in enumerate(window.ranks):
            name = str(rank.rank if rank.rank is not None else place)
            self._rank_cpu.labels(name).set(rank.cpu)
            self._rank_rss.labels(name).set(rank.tree_rss.last)
            self._workers.labels(name).set(len(rank.workers))
            self._alive.labels(name).set(rank.alive)
        for gpu in window.gpus:
            series = (gpu.busy, gpu.sm, gpu.memory, gpu.power, gpu.temperature)
            for metric, one in zip(self._gpu.values(), series, strict=True):
                metric.labels(str(gpu.index)).set(one.last)
        self._finding.clear()
        for item in tick.report.findings:
            found = item.finding
            self._finding.labels(found.code, found.name, found.severity.value, found.subject).set(1)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()  # or who asks now waits for an answer
        self._thread.join(1.0)
