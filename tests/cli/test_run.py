"""`gpudoctor run` as a user calls it: report on standard error, exit codes, where things are written."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from command import TIMEOUT, gpudoctor

TALK = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(int(sys.argv[1]))\n"


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "talk.py"
    path.write_text(TALK)
    return str(path)


def test_nobody_reported_is_never_healthy_and_the_exit_code_is_the_commands(tmp_path, script):
    state = tmp_path / "state"
    done = gpudoctor("run", "--", sys.executable, script, "3", cwd=tmp_path, XDG_STATE_HOME=str(state))
    assert done.returncode == 3
    assert done.stdout == "out\n"
    assert done.stderr.startswith("err\n")
    assert "No rank reported" in done.stderr
    assert "ended with exit code 3." in " ".join(done.stderr.split())
    assert "healthy" not in done.stderr
    (recording,) = (state / "gpudoctor" / "recordings").iterdir()
    assert str(recording) in done.stderr
    assert {"recording.json", "end.json", "machine.gdr"} <= {path.name for path in recording.iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "talk.py"]


def test_usage(tmp_path, script):
    none = gpudoctor("run")
    assert (none.returncode, "gpudoctor run -- python train.py" in none.stderr) == (2, True)
    missing = gpudoctor("run", "--recording", str(tmp_path / "rec"), "--", "no-such-command")
    assert (missing.returncode, missing.stdout) == (127, "")
    assert missing.stderr == "gpudoctor: no-such-command: command not found\n"
    flag = gpudoctor("run", "--no-such-flag", "--", sys.executable, script)
    assert flag.returncode == 2
    steps = gpudoctor("run", "--steps", "0", "--", sys.executable, script)
    assert (steps.returncode, "--steps" in steps.stderr) == (2, True)


def test_on_a_terminal_the_last_row_holds_the_status_and_is_given_back(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text("import time\nfor i in range(5):\n    print('line', i, flush=True)\n    time.sleep(0.2)\n")
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", "run", "--recording", str(tmp_path / "rec"), "--select", "DATA001",
         "--", sys.executable, str(path)],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_own_terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        text += chunk
    assert child.wait(TIMEOUT) == 0
    assert b"no training step seen yet" in text, text
    assert text.count(b"line ") == 5, text
    last = text.rindex(b"no training step seen yet")
    assert b"\x1b[r" in text[last:], text


def _own_terminal() -> None:
    """Make the pseudo-terminal the controlling one, sized, and us its foreground group."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))


def test_a_fault_of_our_own_does_not_touch_the_commands_exit_code(tmp_path, script, monkeypatch, capsys):
    from gpudoctor.cli import main
    from gpudoctor.cli import run as command

    def fails(*_: object, **__: object) -> None:
        raise TypeError("of our own")

    monkeypatch.setattr(command, "examine_recorded", fails)
    words = ["run", "--quiet", "--recording", str(tmp_path / "rec"), "--", sys.executable, script]
    assert main([*words, "0"]) == 0
    said = capsys.readouterr().err
    assert "TypeError: of our own" in said and "no report was written" in said
