"""What the system tells of a death: kills counted by the control group, and the kernel's words."""

import pytest

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.recorder import run
from gpudoctor.vitals.host.cgroup import read_group
from gpudoctor.vitals.host.disks import read_mounts
from gpudoctor.vitals.host.proc_tree import Tree


def test_lines_of_the_runs_time_that_speak_of_a_fault_are_kept_and_masked(monkeypatch):
    messages = (
        KernelMessage(text="Out of memory: Killed process 1 (old)", age=500.0),
        KernelMessage(text="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", age=5.0),
        KernelMessage(text="usb 1-1: new device", age=4.0),
        KernelMessage(text="Memory cgroup out of memory: Killed process 7 (python) API_KEY=abc123def456", age=1.0),
        KernelMessage(text="segfault without a time", age=None),
    )
    monkeypatch.setattr(run, "read_kernel_log", lambda: KernelLog(origin="dmesg", messages=messages))
    lines = run.kernel_lines(60.0)
    assert [line.split(":")[0] for line in lines] == ["NVRM", "Memory cgroup out of memory"]
    assert "abc123def456" not in lines[1]

    def refused() -> KernelLog:
        raise Unavailable("not permitted")

    monkeypatch.setattr(run, "read_kernel_log", refused)
    assert run.kernel_lines(60.0) == ()


@pytest.mark.parametrize(
    ("mount", "membership", "file", "text"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", "0::/job", "memory.events", "low 0\noom 2\noom_kill 3\n"),
        (
            "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0", "4:memory:/job", "memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        ),
    ],
)  # fmt: skip
def test_kills_are_counted_by_either_version_of_control_groups(tmp_path, mount, membership, file, text):
    kind, point, options = mount.split()[0], mount.split()[1], mount.split()[3]
    proc = tmp_path / "proc" / "self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text(membership + "\n")
    (proc / "mountinfo").write_text(f"30 20 0:26 / {point} rw - {kind} {kind} {options}\n")
    folder = tmp_path / point.lstrip("/") / "job"
    folder.mkdir(parents=True)
    (folder / file).write_text(text)
    tree = Tree(root=str(tmp_path))
    assert read_group(tree, read_mounts(tree)).memory_kills() == 3


def test_without_control_groups_nothing_is_counted(tmp_path):
    tree = Tree(root=str(tmp_path))
    assert read_group(tree, read_mounts(tree)).memory_kills() is None
    assert run.memory_kills() >= 0
