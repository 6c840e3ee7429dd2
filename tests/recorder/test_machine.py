"""The machine beside the run: rows that thin out, sums of the right processes, GPUs from a driver."""

import math
import os
import sys
import time

import pytest
from recorded import Recorded, wait_for

from gpudoctor.recorder.machine import FIRST_ROWS, LATER_ROWS, Thinning
from gpudoctor.vitals.recording.reader import read_recording

BUSY = """
import subprocess, sys, time
data = bytearray(64 << 20)
data[::4096] = b"x" * len(data[::4096])
end = time.monotonic() + 3.2
while time.monotonic() < end:
    pass
"""


@pytest.mark.slow
def test_a_run_of_three_seconds_has_its_processes_measured(tmp_path):
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    Recorded(tmp_path / "rec", [sys.executable, str(script)]).end()
    recording = read_recording(str(tmp_path / "rec"))
    table = recording.machine
    assert 2 <= len(table) <= 6
    times = list(table.column("t"))
    assert times == sorted(times)
    assert max(table.column("tree_rss")) > 64 << 20
    known = [value for value in table.column("tree_cpu") if not math.isnan(value)]
    assert 0.02 < max(known) < 1.6  # one thread that computes, on a machine that others use too
    assert all(value > 0 for value in table.column("memory"))
    assert recording.machine_facts["cpus"] >= 1
    assert recording.machine_facts["memory"] > 1 << 28
    assert isinstance(recording.machine_facts["gpus"], list)
    assert recording.end is not None and recording.end.exit_code == 0


def test_rows_thin_out_so_that_72_hours_stay_small():
    rows = Thinning()
    made = [row for second in range(72 * 3600) for row in rows.add({"t": float(second), "x": float(second % 2)})]
    made += rows.rest()
    # Rows of 1, 2, 4... samples: six and a half doublings in 72 hours.
    assert FIRST_ROWS < len(made) < FIRST_ROWS + 7 * LATER_ROWS
    assert [row["t"] for row in made[:3]] == [0.0, 1.0, 2.0]
    assert made[-1]["t"] == 72 * 3600 - 1
    assert made[FIRST_ROWS]["t"] == FIRST_ROWS + 1
    assert made[FIRST_ROWS]["x"] == 0.5


def test_a_full_disk_costs_rows_and_nothing_else(tmp_path, monkeypatch):
    from gpudoctor.probe.wire.frames import FrameWriter
    from gpudoctor.recorder import machine

    def full(self: FrameWriter, data: bytes) -> None:
        if self.bytes:
            raise OSError(28, "No space left on device")
        os.write(self._handle, data)
        self.bytes = len(data)

    monkeypatch.setattr(FrameWriter, "append", full)

    class Nothing:
        facts: list[dict[str, object]] = []

        def latest(self) -> list[dict[str, float]]:
            return []

    sampler = machine.MachineSampler(tmp_path, os.getpid(), Nothing(), time.monotonic())  # type: ignore[arg-type]
    sampler.close()
    assert sampler.lost_bytes > 0
    assert sampler.error is None
    assert (tmp_path / "machine.gdr").read_bytes() == b"GPUDOC1\n"


MIG = "MIG-22222222-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("name", "variables", "sampled"),
    [
        ("MIG on", {"CUDA_VISIBLE_DEVICES": MIG}, [0]),
        ("unlike cards", {"CUDA_VISIBLE_DEVICES": "0"}, [0, 1]),
        ("unlike cards", {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0]),
    ],
)
def test_the_gpus_of_the_command_are_sampled(tmp_path, name, variables, sampled):
    """Of MIG devices the one that is used; of cards that CUDA may count in another order, all."""
    from fake_nvml import SCENARIOS, Machine, compiler
    from fake_nvml.machine import h100
    from fake_nvml.run import environment
    from fake_nvml.scenarios import Scenario

    if compiler() is None:
        pytest.skip("no C compiler for the fake driver")
    from gpudoctor.recorder.machine import GpuReadings

    unlike = Scenario(name="unlike cards", machine=Machine(answers=[*h100(2), "1 Name 0 NVIDIA T400"], nodes=2))
    scenario = next(item for item in (*SCENARIOS, unlike) if item.name == name)
    feed = GpuReadings(
        {**environment(scenario, tmp_path / "machine", tmp_path / "libraries"), **variables}, interval=0.1
    )
    try:
        assert wait_for(lambda: feed.latest() and feed.facts)
        assert [gpu["index"] for gpu in feed.facts] == sampled
    finally:
        feed.close()
