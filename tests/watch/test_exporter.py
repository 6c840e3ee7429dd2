"""The metrics of a watch."""

import http.client
import socket

import pytest
from windows import make_gpu_window, make_rank, make_tick, make_window, make_worker

from gpudoctor.errors import UsageError


def fetched(port):
    """The metrics, past any proxy that the environment names."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.slow
def test_metrics_are_served_on_the_loopback_only():
    pytest.importorskip("prometheus_client")
    from gpudoctor.watch.exporter import Exporter

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    exporter = Exporter(port)
    try:
        workers = (make_worker(1), make_worker(2))
        exporter.take(make_tick(make_window([make_rank(0, workers=workers), make_rank(1, 4712)], [make_gpu_window(0)])))
        text = fetched(port)
        with pytest.raises(UsageError):
            Exporter(port)
    finally:
        exporter.close()
    assert 'gpudoctor_phase_share{phase="backward"} 0.5' in text
    assert 'gpudoctor_rank_workers{rank="0"} 2.0' in text and 'gpudoctor_gpu_busy_ratio{gpu="0"} 0.95' in text
    with pytest.raises(OSError):
        fetched(port)
