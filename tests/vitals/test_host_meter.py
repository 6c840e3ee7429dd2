"""The meter of `run` and `watch`: every byte once, no rate over a moment, the memory of the control group."""

import os
from types import SimpleNamespace

import psutil
import pytest

from gpudoctor.vitals.host.cgroup import GroupMemory
from gpudoctor.vitals.host.meter import HostMeter

MIB = 1 << 20


def disks(**read: int) -> dict[str, SimpleNamespace]:
    return {name.replace("_", "-"): SimpleNamespace(read_bytes=size, write_bytes=0) for name, size in read.items()}


@pytest.mark.parametrize(
    "name", ["dm_0", "md127", "loop3", "zram0", "sda1", "nvme0n1p2"], ids=lambda name: name.replace("_", "-")
)
def test_what_lies_on_a_disk_is_counted_once(monkeypatch, name):
    blocks = {"sda", "nvme0n1", "dm-0", "md127", "loop3", "zram0"}
    monkeypatch.setattr(os.path, "isdir", lambda path: path.removeprefix("/sys/block/") in blocks)
    seen = [disks(sda=0, nvme0n1=0, **{name: 0}), disks(sda=3 * MIB, nvme0n1=MIB, **{name: 3 * MIB})]
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: seen.pop(0))
    host = HostMeter()
    assert "disk_read" not in host.sample(10.0)
    assert host.sample(12.0)["disk_read"] == 2 * MIB


@pytest.mark.parametrize(("limit", "used"), [(8 * MIB, 3 * MIB), (None, 3 * MIB), (8 * MIB, None)])
def test_memory_is_that_of_the_control_group_where_it_limits_it(limit, used):
    group = SimpleNamespace(memory=lambda _: GroupMemory(limit=limit, used=used, room=None))
    host = HostMeter(group=group)
    taken = host.sample(1.0)["memory"]
    if limit and used:
        assert (taken, host.memory_total) == (used, limit)
    else:
        assert host.memory_total == psutil.virtual_memory().total
        assert MIB < taken < host.memory_total
