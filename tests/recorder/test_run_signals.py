"""Signals reach the command once each, as they would without us; its exit is ours."""

import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from recorded import Recorded, wait_for

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="process groups are POSIX")

COUNTS = """
import os, signal, sys, time
got = []
def take(number, frame):
    got.append(number)
    print("got", number, flush=True)
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, take)
print("ready", os.getpid(), flush=True)
while signal.SIGHUP not in got:
    time.sleep(0.01)
time.sleep(0.4)  # one that came twice would come now
print("end", *got, flush=True)
"""


def start(tmp_path: Path, script: str, *words: str, **facts: object) -> Recorded:
    path = tmp_path / "script.py"
    path.write_text(script)
    return Recorded(tmp_path / "rec", [sys.executable, str(path), *words], **facts)


def test_each_signal_arrives_once_whether_it_is_sent_to_us_or_to_the_group(tmp_path):
    run = start(tmp_path, COUNTS)
    assert run.line().startswith("ready")
    sent = [
        (os.kill, signal.SIGUSR1),
        (os.killpg, signal.SIGINT),
        (os.kill, signal.SIGTERM),
        (os.killpg, signal.SIGTERM),
        (os.kill, signal.SIGINT),
        (os.killpg, signal.SIGHUP),
    ]
    for send, number in sent:
        send(run.pid, number)
        assert run.line() == f"got {int(number)}"
    code, out, _ = run.end()
    assert out.split() == ["end", *(str(int(number)) for _, number in sent)]
    assert code == 0


def test_a_burst_for_the_group_is_not_doubled(tmp_path):
    run = start(tmp_path, COUNTS)
    run.line()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        os.killpg(run.pid, number)
    time.sleep(0.3)
    os.kill(run.pid, signal.SIGHUP)
    _, out, _ = run.end()
    got = out.splitlines()[-1].split()[1:]
    assert sorted(got) == sorted(str(int(n)) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP))


def test_a_death_by_signal_is_128_plus_n_and_is_written_down(tmp_path):
    run = start(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    code, _, _ = run.end()
    assert code == 128 + signal.SIGSEGV
    ending = run.ending()
    assert (ending["exit_code"], ending["signal"], ending["stopped_by"]) == (code, "SIGSEGV", None)


def test_kill_9_on_us_ends_the_command_as_it_would_have_without_us(tmp_path):
    run = start(tmp_path, "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    child = int(run.line())
    os.kill(run.pid, signal.SIGKILL)
    run.process.wait(10)

    def gone() -> bool:
        try:
            return "Z" in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True

    if sys.platform == "linux":
        assert wait_for(gone)


def test_an_ignored_signal_stays_ignored(tmp_path):
    script = tmp_path / "outer.sh"
    script.write_text(f"trap '' HUP\nexec {shlex.quote(sys.executable)} \"$@\"\n")
    path = tmp_path / "script.py"
    path.write_text("import signal\nprint(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n")
    folder = tmp_path / "rec"
    folder.mkdir()
    import subprocess

    from recorded import _DRIVER

    done = subprocess.run(
        ["sh", str(script), "-c", _DRIVER, str(folder), "{}", sys.executable, str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n"
