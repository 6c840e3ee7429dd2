"""The CSV log and the metrics."""

import http.client
import socket

import pytest
from windows import make_gpu_window, make_rank, make_tick, make_window, make_worker, series

from gpudoctor.errors import UsageError
from gpudoctor.watch.outlets import COLUMNS, CsvLog


def fetched(port):
    """The metrics, past any proxy that the environment names."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_the_csv_is_nvidia_smis_with_our_columns_behind(tmp_path):
    path = tmp_path / "gpus.csv"
    log = CsvLog(path)
    log.take(
        make_tick(make_window([make_rank()], [make_gpu_window(0), make_gpu_window(1, power=series([float("nan")]))]))
    )
    log.take(make_tick(make_window()))
    log.close()
    lines = path.read_text().splitlines()
    assert lines[0] == ", ".join(COLUMNS) and len(lines) == 4
    cells = lines[1].split(", ")
    assert cells[1:7] == ["0", "NVIDIA H100 80GB HBM3", "95 %", "40960 MiB", "81920 MiB", "625.00 W"]
    assert cells[-2:] == ["backward", "3 %"]
    assert lines[2].split(", ")[6] == "[N/A]"
    assert lines[3].count("[N/A]") == len(COLUMNS) - 3 and len(lines[3].split(", ")) == len(COLUMNS)
    with pytest.raises(UsageError, match="already"):
        CsvLog(path)


def test_the_log_is_read_back_as_a_recording_of_nvidia_smi(tmp_path):
    path = tmp_path / "gpus.csv"
    log = CsvLog(path)
    for _ in range(5):
        log.take(make_tick(make_window([make_rank()], [make_gpu_window(0)])))
    log.close()
    from gpudoctor.vitals.recording.smi import read_smi_log

    recording = read_smi_log(str(path))
    assert recording.origin == "nvidia-smi"
    assert list(recording.machine.column("gpu0_util"))[-1] == pytest.approx(0.95)


@pytest.mark.slow
def test_metrics_are_served_on_the_loopback_only():
    pytest.importorskip("prometheus_client")
    from gpudoctor.watch.outlets import Exporter

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
