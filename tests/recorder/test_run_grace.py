"""A run whose end is ours ends within the stated time, whatever the command does with signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded import Recorded

from gpudoctor.recorder.run import Presses

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes by /proc")

DRIVER = """
import json, sys
from pathlib import Path
import gpudoctor.recorder.stop as stop
stop.LAST = 0.6
from gpudoctor.recorder.run import RunPlan, record
folder, facts, *command = sys.argv[1:]
plan = RunPlan(command=tuple(command), folder=Path(folder), **json.loads(facts))
ending = record(plan, lambda now, passed: None, tell=lambda text: print(text, file=sys.stderr, flush=True))
sys.exit(ending.exit_code)
"""
FOR_EVER = "\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.05)\n"
PROGRAMS = {
    "ignores SIGINT and SIGTERM": "import signal, time\n"
    "for n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\n" + FOR_EVER,
    "catches them and goes on": "import signal, time\n"
    "for n in (signal.SIGINT, signal.SIGTERM): signal.signal(n, lambda *_: None)\n" + FOR_EVER,
    "blocks every signal": "import signal, time\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n" + FOR_EVER,
    "is stopped": "import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\n"
    "while True:\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
    "leaves a daemon": "import os, signal, time\n"
    "if not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(600)\n" + FOR_EVER,
    "starts workers anew": "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True)\nwhile True:\n    subprocess.run([sys.executable, '-S', '-c', "
    "'import time; time.sleep(600)'])\n",
}
"""What a program does with the signals that ask it to end."""


def left_behind(folder: Path) -> list[int]:
    """Processes that carry the recording's folder in their environment."""
    mark = f"GPUDOCTOR_RECORDING={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_the_end_comes_within_the_stated_time(tmp_path):
    started = {}
    for number, (name, text) in enumerate(PROGRAMS.items()):
        script = tmp_path / f"{number}.py"
        script.write_text(text)
        folder = tmp_path / f"rec-{number}"
        folder.mkdir()
        words = [str(folder), json.dumps({"seconds": 0.8, "grace": 0.5}), sys.executable, str(script)]
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        started[name] = (process, folder)
    for name, (process, folder) in started.items():
        _, err = process.communicate(timeout=60)
        ending = json.loads((folder / "end.json").read_text())
        assert not left_behind(folder), name
        assert ending["stopped_by"] == "seconds", name
        # 0.8 s, 0.5 s of grace, 0.6 s after SIGTERM, and time for a loaded machine
        assert ending["seconds"] < 0.8 + 0.5 + 0.6 + 3.0, name
        sent = [one for one, _ in ending["signals"]]
        assert (folder / "ending").exists(), name
        assert sent[0] == "SIGINT" and sent[-1] == "SIGKILL", name
        assert all(f"{one}" in err for one in sent), name
        if name != "leaves a daemon":
            assert process.returncode == 128 + signal.SIGKILL, name


def test_a_program_that_saves_after_ctrl_c_has_its_time(tmp_path):
    script = tmp_path / "saves.py"
    script.write_text(
        "import sys, time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(1.5)\n    print('saved', flush=True)\n    sys.exit(3)\n"
    )
    run = Recorded(tmp_path / "rec", [sys.executable, str(script)])
    assert run.line() == "ready"
    os.killpg(run.pid, signal.SIGINT)
    code, out, _ = run.end()
    assert (code, out) == (3, "saved\n")
    assert run.ending()["signals"] == []


def test_the_third_ctrl_c_ends_what_ignores_it(tmp_path):
    script = tmp_path / "deaf.py"
    script.write_text(
        "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: print('no', flush=True))" + FOR_EVER
    )
    run = Recorded(tmp_path / "rec", [sys.executable, str(script)])
    assert run.line() == "ready"
    for _ in range(3):
        os.killpg(run.pid, signal.SIGINT)
        assert run.line() == "no"
        time.sleep(0.6)
    code, _, _ = run.end()
    assert code == 128 + signal.SIGTERM
    assert [name for name, _ in run.ending()["signals"]] == ["SIGTERM"]
    assert run.ending()["stopped_by"] == "interrupt"


def test_who_waits_for_a_program_after_ctrl_c_is_told_once():
    presses = Presses()
    assert presses.waiting(100.0) == ""
    presses.press(100.0)
    assert presses.waiting(109.0) == ""
    assert "still runs 10 s after Ctrl-C" in presses.waiting(110.5)
    assert presses.waiting(120.0) == ""
