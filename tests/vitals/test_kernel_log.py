import time

import pytest

from gpudoctor.model import Unavailable
from gpudoctor.vitals.kernel_log import read_kernel_log


def programs(tmp_path, monkeypatch, **scripts):
    for name, script in scripts.items():
        path = tmp_path / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_the_journal_comes_first(tmp_path, monkeypatch):
    at = time.time() - 120
    programs(
        tmp_path,
        monkeypatch,
        journalctl=f"echo '{at:.6f} node-1 kernel: NVRM: Xid (PCI:0000:1d:00): 48, x'; echo '-- Boot --'",
    )
    log = read_kernel_log()
    assert log.origin == "journalctl -k"
    [message] = log.messages
    assert message.text.startswith("NVRM") and message.age == pytest.approx(120, abs=5)


def test_nothing_readable_says_what_was_tried(tmp_path, monkeypatch):
    refusal = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
    no_journal = "echo 'No journal files were opened' >&2; exit 1"
    programs(tmp_path, monkeypatch, journalctl=no_journal, dmesg=refusal)
    with pytest.raises(Unavailable, match=r"journalctl: No journal files.*dmesg: dmesg: read"):
        read_kernel_log()


def test_dmesg_has_ages_by_the_uptime(tmp_path, monkeypatch):
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC)
    programs(
        tmp_path,
        monkeypatch,
        journalctl="exit 1",
        dmesg=f"echo '[{uptime - 30:12.6f}] NVRM: x'; echo '[{uptime - 20:12.6f}][  T123] NVRM: y'",
    )
    log = read_kernel_log()
    assert log.origin == "dmesg"
    assert [message.text for message in log.messages] == ["NVRM: x", "NVRM: y"]
    assert log.messages[0].age == pytest.approx(30, abs=3)
