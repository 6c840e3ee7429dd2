"""What the system tells of a death: kills counted by the control group, and the kernel's words."""

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.kernel_log import KernelLog, KernelMessage
from gpudoctor.recorder import run


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
