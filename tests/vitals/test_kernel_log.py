import time
from datetime import datetime, timedelta, timezone

import pytest
from some import some

from gpudoctor.model import Unavailable
from gpudoctor.vitals import kernel_log
from gpudoctor.vitals.kernel_log import read_kernel_log

NOW = 1_700_000_000.0


def stamp(seconds_ago, pattern):
    return datetime.fromtimestamp(NOW - seconds_ago).strftime(pattern)


@pytest.mark.parametrize("pattern", ["%b %e %H:%M:%S", "%Y-%m-%dT%H:%M:%S.123456"])
def test_syslog_lines_have_an_age_and_other_programs_are_left_out(tmp_path, pattern):
    file = tmp_path / "syslog"
    file.write_text(
        f"{stamp(3600, pattern)} node-1 kernel: [   12.345678] NVRM: Xid (PCI:0000:1d:00): 31, pid=1\n"
        f"{stamp(10, pattern)} node-1 sshd[1]: kernel: hello\n"
    )
    [message] = kernel_log._of_file(file, NOW, since=None).messages
    assert message.text.startswith("NVRM: Xid") and message.age == pytest.approx(3600, abs=1.5)
    assert message.time is not None


def test_a_zone_in_the_time_is_heeded(tmp_path):
    at = datetime.fromtimestamp(NOW - 60, tz=timezone(timedelta(hours=5)))
    file = tmp_path / "messages"
    file.write_text(f"{at.isoformat()} h kernel: a\n{at.strftime('%Y-%m-%dT%H:%M:%S%z')} h kernel: b\n")
    for message in some(kernel_log._of_file(file, NOW, since=None).messages):
        assert message.age == pytest.approx(60, abs=1)


def test_december_in_january_is_last_year(tmp_path):
    now = datetime(2025, 1, 2, 12).timestamp()
    file = tmp_path / "kern.log"
    file.write_text("Dec 31 12:00:00 h kernel: old\n")
    [message] = kernel_log._of_file(file, now, since=None).messages
    assert message.age == pytest.approx(2 * 86400)


def test_messages_before_this_boot_are_left_out(tmp_path):
    file = tmp_path / "kern.log"
    file.write_text(f"{stamp(5000, '%b %e %T')} h kernel: before\n{stamp(50, '%b %e %T')} h kernel: after\n")
    log = kernel_log._of_file(file, NOW, since=NOW - 1000)
    assert [message.text for message in log.messages] == ["after"]
    with pytest.raises(Unavailable, match="this boot"):
        kernel_log._of_file(file, NOW, since=NOW - 10)


def test_a_huge_syslog_is_read_from_its_end_and_rubbish_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "log"
    file.write_bytes(b"\xff\x00 not text\n")
    with pytest.raises(Unavailable, match="no kernel messages"):
        kernel_log._of_file(file, NOW, since=None)
    monkeypatch.setattr(kernel_log, "_SIZE_LIMIT", 100)
    file.write_text("x" * 10_000 + f"\n{stamp(10, '%b %e %H:%M:%S')} h kernel: the end\n")
    [message] = kernel_log._of_file(file, NOW, since=None).messages
    assert message.text == "the end"


def test_a_missing_file_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="No such file"):
        kernel_log._of_file(tmp_path / "none", NOW, since=None)


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


def test_a_source_that_hangs_is_given_up(tmp_path, monkeypatch):
    programs(tmp_path, monkeypatch, journalctl="exec sleep 60")
    monkeypatch.setattr(kernel_log, "_TIME_LIMIT", 0.3)
    monkeypatch.setattr(kernel_log, "_SYSLOGS", ())
    start = time.monotonic()
    try:
        log = read_kernel_log()
        assert log.origin != "journalctl -k"
    except Unavailable as error:
        assert "journalctl: did not answer in time" in str(error)
    assert time.monotonic() - start < 5


def test_nothing_readable_says_what_was_tried(tmp_path, monkeypatch):
    programs(
        tmp_path,
        monkeypatch,
        journalctl="echo 'No journal files were opened' >&2; exit 1",
        dmesg="echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1",
    )
    monkeypatch.setattr(kernel_log, "_SYSLOGS", (str(tmp_path / "none"),))

    def refuse(deadline):
        raise Unavailable("Operation not permitted")

    monkeypatch.setattr(kernel_log, "_of_kmsg", refuse)
    with pytest.raises(Unavailable) as told:
        read_kernel_log()
    for words in ("journalctl: No journal files", "/dev/kmsg: Operation not", "dmesg: dmesg: read", "No such file"):
        assert words in str(told.value)


def test_dmesg_has_ages_by_the_uptime(tmp_path, monkeypatch):
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC)
    programs(
        tmp_path,
        monkeypatch,
        journalctl="exit 1",
        dmesg=f"echo '[{uptime - 30:12.6f}] NVRM: x'; echo '[{uptime - 20:12.6f}][  T123] NVRM: y'",
    )
    monkeypatch.setattr(kernel_log, "_of_kmsg", lambda deadline: (_ for _ in ()).throw(Unavailable("no")))
    log = read_kernel_log()
    assert log.origin == "dmesg"
    assert [message.text for message in log.messages] == ["NVRM: x", "NVRM: y"]
    assert log.messages[0].age == pytest.approx(30, abs=3)
