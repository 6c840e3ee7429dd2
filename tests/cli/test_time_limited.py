"""Work with a time limit ends in time, whatever it does; what it says comes back."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.cli.time_limited import Expired, Fault, limited
from gpudoctor.errors import UsageError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def without_letting_go() -> object:
    return re.match(r"(a+)+$", "a" * 60 + "b")  # keeps the interpreter to itself


def deaf() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


@pytest.mark.parametrize("work", [without_letting_go, deaf])
def test_what_takes_too_long_is_ended(work):
    start = time.monotonic()
    with pytest.raises(Expired, match=r"not finished in 300 ms"):
        limited(work, 0.3)
    assert time.monotonic() - start < 3.0


def test_what_it_returns_and_raises():
    assert limited(lambda: {"large": "x" * 1_000_000}, 20.0) == {"large": "x" * 1_000_000}

    def refuse() -> None:
        raise UsageError("no such thing")

    with pytest.raises(Exception, match="no such thing") as error:
        limited(refuse, 20.0)
    assert error.value.exit_code == 2  # type: ignore[attr-defined]
    with pytest.raises(Fault, match="ZeroDivisionError"):
        limited(lambda: 1 // 0, 20.0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the signal for both of us, which it had first
        with pytest.raises(KeyboardInterrupt):
            limited(lambda: os.kill(os.getpid(), number), 20.0)  # noqa: B023
    with pytest.raises(Fault, match="died"):
        limited(lambda: os.kill(os.getpid(), signal.SIGKILL), 20.0)


DRIVER = """
import re, sys
import gpudoctor.cli.run as run
def stuck(*_, **__):
    re.match(r"(a+)+$", "a" * 60 + "b")
run.examine_recorded = stuck
run.REPORT_SECONDS = float(sys.argv.pop(1))
from gpudoctor.cli import main
sys.exit(main(sys.argv[1:]))
"""


def stuck_run(tmp_path: Path, seconds: float = 60.0) -> "subprocess.Popen[str]":
    words = [str(seconds), "run", "--recording", str(tmp_path / "rec"), "--output", str(tmp_path / "report.json"),
             "--format", "json", "--", sys.executable, "-c", "print('out'); raise SystemExit(7)"]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_a_report_that_is_not_finished_in_time_is_given_up(tmp_path):
    out, err = (process := stuck_run(tmp_path, 0.5)).communicate(timeout=60)
    assert (process.returncode, out) == (7, "out\n")
    said = f"the report was not finished in 500 ms; make it with: gpudoctor report {tmp_path / 'rec'}"
    assert said in err and "Traceback" not in err
    assert not (tmp_path / "report.json").exists()
    assert (tmp_path / "rec" / "end.json").is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_ends_the_report_and_the_exit_code_stays_the_commands(tmp_path, number):
    process = stuck_run(tmp_path)
    end = tmp_path / "rec" / "end.json"
    while not end.exists():
        time.sleep(0.05)
    time.sleep(0.2)
    start = time.monotonic()
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 5.0
    assert process.returncode == 7 and "interrupted; make the report with" in err and "Traceback" not in err
