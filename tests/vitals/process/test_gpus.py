"""The GPUs of a watch against the fake driver: samples, events of mid-watch, a card that is lost, a driver that hangs."""

import os
import time

import pytest
from fake_nvml import Machine, compiler, library_folder
from fake_nvml.machine import GIB, h100

from gpudoctor.model.signs.gpu import DriverState
from gpudoctor.vitals.process import gpu_histories as gpus
from gpudoctor.vitals.process.gpu_histories import GpuFeed

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler to build the fake driver with")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Start a feed on a machine with these answers; its file of answers may be rewritten meanwhile."""
    feeds = []

    def start(answers, **changes):
        for name, value in Machine(answers=answers, **changes).build(tmp_path / "root").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder(tmp_path / "lib")))
        feed = GpuFeed(now(), interval=0.1)
        feeds.append(feed)
        return feed

    yield start
    for feed in feeds:
        feed.close()


BEGAN = time.monotonic()


def now():
    """The clock of every feed here."""
    return time.monotonic() - BEGAN


def ticks(feed, until, limit=30.0):
    """Tick until something holds."""
    end = now() + limit
    while now() < end:
        feed.tick(now())
        if until(feed):
            return now()
        time.sleep(0.05)
    raise AssertionError("it did not come to be")


def hung(feed):
    gaps = feed.gaps(now())
    return bool(gaps) and gaps[0].panel == "gpu" and "no answer for" in gaps[0].reason


def sampled(feed):
    return bool(feed.windows()) and all(len(gpu.busy.known()) >= 3 for gpu in feed.windows())


def test_samples_become_windows_and_a_survey(machine):
    answers = [*h100(2), "* UtilizationRates 0 93 40", f"1 ComputeProcesses 0 2 {os.getpid()} {39 * GIB} 1 {GIB}",
               "1 ClocksEventReasons 0 0x44"]  # fmt: skip
    feed = machine(answers)
    t = ticks(feed, sampled)
    first, second = feed.windows()
    assert first.name == "NVIDIA H100 80GB HBM3" and first.memory_total == 80 * GIB and first.power_limit == 700.0
    assert first.busy.last == pytest.approx(0.93) and first.power.last == pytest.approx(70.0)
    assert second.reasons == {0x4: 1.0, 0x40: 1.0} and first.reasons == {0x1: 1.0}
    assert [user.pid for user in second.users] == [os.getpid(), 1]
    survey = feed.survey(frozenset({os.getpid()}), t)
    assert survey.driver is DriverState.READY and survey.driver_version == "570.86.15"
    assert survey.gpus[1].utilization == pytest.approx(0.93) and survey.gpus[1].processes[0].ours
    assert feed.gaps(t) == []


def test_a_driver_that_hangs_in_mid_watch_is_a_gap_and_stops_nobody(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "SILENCE", 1.0)
    feed = machine(h100(1))
    ticks(feed, sampled)
    answers = tmp_path / "root" / "answers"
    answers.write_text("\n".join([*h100(1), "0 PowerUsage hang"]) + "\n")
    known = len(feed.windows()[0].power.known())
    ticks(feed, hung)
    assert len(feed.windows()[0].power.known()) >= known  # what was seen stays
    began = time.monotonic()
    feed.close()
    assert time.monotonic() - began < 3.0
