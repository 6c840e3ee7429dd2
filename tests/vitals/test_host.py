"""The host reader on small recorded trees: bare metal, containers, a cluster, WSL, and rubbish."""

import threading
import time
from pathlib import Path

from gpudoctor.model import Absent
from gpudoctor.model.signs.host import Limit
from gpudoctor.vitals.host import Space, Tree, read_host

GIB = 1 << 30
KIB = 1024


V2 = "30 1 0:26 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
ROOT = "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
SHM = "9 1 0:9 / /dev/shm rw - tmpfs tmpfs rw,size=65536k\n"
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             {nproc}              {nproc}              processes
Max open files            1024                 1048576              files
Max locked memory         65536                65536                bytes
"""


def plant(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write a tree of files."""
    for name, content in files.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def machine(folder: Path, files: dict[str, str | bytes], *, cpus: int = 16, memory: int = 64 * GIB) -> Tree:
    """A recorded machine: the common files, and those of the case."""
    usual = {
        "/proc/meminfo": f"MemTotal: {memory // KIB} kB\nMemFree: 9 kB\nMemAvailable: {memory // KIB // 2} kB\n"
        "SwapTotal: 0 kB\nSwapFree: 0 kB\n",
        "/proc/self/status": f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-{cpus - 1}\n",
        "/proc/self/limits": LIMITS.format(nproc="unlimited"),
        "/proc/self/mountinfo": ROOT + SHM,
        "/proc/self/cgroup": "0::/\n",
        "/proc/sys/kernel/hostname": "node-7\n",
        "/proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz ro quiet\n",
        "/sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "/dev/shm/keep": "",
        "/sys/class/net/keep": "",
    }
    plant(folder, usual | files)
    spaces = {"shm": Space(total=64 << 20, free=60 << 20)}
    return Tree(
        root=str(folder),
        space=lambda path: spaces["shm"] if path.endswith("/dev/shm") else Space(total=100 * GIB, free=40 * GIB),
    )


def read(tree: Tree, folders=(), **variables: str):
    return read_host(folders, variables=variables | {"HOME": "/home/u"}, working_folder="/data/job", tree=tree)


def test_bare_metal(tmp_path):
    host = read(machine(tmp_path, {}))
    assert (host.memory_total, host.memory_available) == (64 * GIB, 32 * GIB)
    assert (host.memory_limit, host.swap_used, host.swap_rate) == (None, 0, 0.0)
    assert host.shm_total == 64 << 20
    assert host.open_files == Limit(soft=1024, hard=1048576)
    assert host.locked_memory == Limit(soft=65536, hard=65536)
    assert host.processes == Limit(soft=None, hard=None)
    assert host.container is None
    assert host.hostname == "node-7"
    assert host.system.startswith("Linux 5.15 ")


def test_docker_with_control_groups_v2(tmp_path):
    group = "/sys/fs/cgroup"
    host = read(
        machine(
            tmp_path,
            {
                "/.dockerenv": "",
                "/proc/self/mountinfo": ROOT + V2.format(root="/") + SHM,
                f"{group}/cpu.max": "250000 100000\n",
                f"{group}/memory.max": f"{8 * GIB}\n",
                f"{group}/memory.current": f"{6 * GIB}\n",
                f"{group}/memory.stat": f"anon {GIB}\nfile {4 * GIB}\nshmem {GIB}\n",
                f"{group}/pids.max": "512\n",
            },
        )
    )
    assert host.cpu_quota == 2.5
    assert host.cpu_budget == 2.5
    assert host.memory_limit == 8 * GIB
    assert host.memory_available == 5 * GIB
    assert host.processes.soft == 512
    assert host.container == "docker"


def test_slurm_step_is_held_to_the_tightest_group_above_it(tmp_path):
    top = "/sys/fs/cgroup"
    job = f"{top}/system.slice/slurmstepd.scope/job_42"
    host = read(
        machine(
            tmp_path,
            {
                "/proc/self/mountinfo": ROOT + V2.format(root="/"),
                "/proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n",
                "/proc/self/status": "Cpus_allowed_list:\t2,4-5\n",
                f"{job}/memory.max": f"{4 * GIB}\n",
                f"{job}/memory.current": f"{3 * GIB}\n",
                f"{job}/step_0/memory.max": "max\n",
                f"{job}/step_0/user/memory.max": f"{6 * GIB}\n",
                f"{job}/step_0/user/memory.current": f"{GIB}\n",
                f"{job}/pids.max": "512\n",
                f"{job}/step_0/pids.max": "1024\n",
                f"{job}/cpu.max": "600000 100000\n",
                f"{job}/step_0/cpu.max": "max 100000\n",
                f"{top}/system.slice/cpu.max": "1200000 100000\n",
            },
        )
    )
    assert host.cpus_affinity == 3
    assert host.processes.soft == 512
    assert host.cpu_quota == 6.0
    assert host.memory_limit == 4 * GIB
    assert host.memory_available == GIB


def test_swap_is_looked_at_only_when_it_is_used(tmp_path, monkeypatch):
    meminfo = f"MemTotal: {GIB} kB\nMemAvailable: {GIB} kB\nSwapTotal: 4096 kB\nSwapFree: 1024 kB\n"
    tree = machine(tmp_path, {"/proc/meminfo": meminfo, "/proc/vmstat": "pswpin 0\npswpout 100\n"})
    naps = []

    def swap_meanwhile(seconds):
        naps.append(seconds)
        plant(tmp_path, {"/proc/vmstat": "pswpin 600\npswpout 100\n"})

    monkeypatch.setattr("gpudoctor.vitals.host.time.sleep", swap_meanwhile)
    host = read(tree)
    assert host.swap_used == 3072 * KIB
    assert not isinstance(host.swap_rate, Absent)
    assert host.swap_rate > 600 * 4096
    absent = read(machine(tmp_path / "other", {"/proc/meminfo": meminfo}))
    assert isinstance(absent.swap_rate, Absent)
    assert read(machine(tmp_path / "third", {})).swap_rate == 0.0
    assert naps == [0.05, 0.05]


def test_a_hung_mount_does_not_hang_the_examination(tmp_path):
    tree = machine(tmp_path, {"/hung/keep": ""})
    quick, release = tree.space, threading.Event()

    def space(path):
        if path.endswith("/hung"):
            release.wait(30)
        return quick(path)

    slow = Tree(root=tree.root, space=space)
    start = time.perf_counter()
    host = read(slow, [("output", "/hung")])
    release.set()
    assert time.perf_counter() - start < 10
    assert [(item.role, item.path) for item in host.silent_folders] == [("output", "/hung")]
    assert "no answer" in host.silent_folders[0].reason
    assert {disk.role for disk in host.disks} >= {"working folder", "temporary files"}
