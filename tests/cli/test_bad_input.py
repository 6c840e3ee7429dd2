"""Bad input: a clear sentence, the right exit code, never a traceback, nothing half-written."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import time

import pytest
from command import gpudoctor

WELL = "import torch\n\nprint(torch.__version__)\n"


def refused(done, code, *said):
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout)
    text = done.stderr + done.stdout
    for words in said:
        assert words in text, text


def test_no_command():
    assert gpudoctor().returncode == 0  # it says what can be done here


def test_unknown_command_and_flag():
    refused(gpudoctor("chek"), 2, "did you mean `gpudoctor check`")
    refused(gpudoctor("check", "--fail-onn", "error"), 2, "--fail-onn", "did you mean --fail-on?", "--help")


def test_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "train.py").write_text(WELL)
    refused(gpudoctor("check", "trian.py", cwd=tmp_path), 2, "trian.py: no such file", "did you mean train.py?")


def test_empty_folder(tmp_path):
    refused(gpudoctor("check", str(tmp_path)), 2, "nothing to examine")


def test_the_folder_of_a_recording(tmp_path):
    (tmp_path / "run 1").mkdir()
    (tmp_path / "run 1" / "recording.json").write_text("{}")
    refused(gpudoctor("check", "run 1", cwd=tmp_path), 2, "a recording", "gpudoctor report 'run 1'")


def test_binary_file(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"\x00\x01\x02" * 100)
    refused(gpudoctor("check", "model.bin", cwd=tmp_path), 3, "model.bin: a binary file")


def test_binary_file_called_py(tmp_path):
    (tmp_path / "train.py").write_bytes(b"\x7fELF\x00\x01\x02" * 100)
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 3, "train.py")


def test_a_file_of_no_known_kind(tmp_path):
    (tmp_path / "notes.xyz").write_text("hello")
    refused(gpudoctor("check", "notes.xyz", cwd=tmp_path), 2, "notes.xyz: not recognised")


def test_syntax_error_names_the_line(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n\ndef f(:\n    pass\n")
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 3, "train.py", "line 3")


def test_python_2(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nprint 'epoch', 1\n")
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 3, "train.py", "Python 2")


def test_fifty_megabytes(tmp_path):
    (tmp_path / "train.py").write_bytes(b"x = 1\n" * (50 * 1024 * 1024 // 6))
    start = time.monotonic()
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 3, "train.py", "MiB")
    assert time.monotonic() - start < 15


def test_wrong_encoding(tmp_path):
    (tmp_path / "train.py").write_bytes("# größe\nx = 1\n".encode("latin-1"))
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 3, "train.py", "UTF-8")


def test_declared_encoding_is_respected(tmp_path):
    (tmp_path / "train.py").write_bytes("# coding: latin-1\n# größe\nx = 1\n".encode("latin-1"))
    assert gpudoctor("check", "train.py", "--fail-on", "never", cwd=tmp_path).returncode == 0


def test_symlink_loop(tmp_path):
    (tmp_path / "a.py").symlink_to("b.py")
    (tmp_path / "b.py").symlink_to("a.py")
    refused(gpudoctor("check", "a.py", cwd=tmp_path), 3, "a.py")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "again").symlink_to("..")
    (tmp_path / "folder" / "train.py").write_text(WELL)
    assert gpudoctor("check", "folder", "--fail-on", "never", cwd=tmp_path).returncode in (0, 3)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(WELL)
    path.chmod(0)
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 3, "train.py", "no permission")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe(tmp_path):
    os.mkfifo(tmp_path / "train.py")
    refused(gpudoctor("check", "train.py", cwd=tmp_path), 2, "neither a file nor a folder")


def test_unknown_code(tmp_path):
    refused(gpudoctor("check", "--select", "DATA01"), 2, "--select: unknown code 'DATA01'", "did you mean DATA001?")
    refused(gpudoctor("check", "--ignore", "loader-bond"), 2, "did you mean loader-bound?")


@pytest.mark.parametrize("name", ["gpudoctor.toml", "pyproject.toml"])
def test_malformed_settings(tmp_path, name):
    (tmp_path / name).write_text("[tool.gpudoctor]\nselect = [\n")
    refused(gpudoctor("check", cwd=tmp_path), 2, name, "not valid TOML")


def test_settings_named_and_missing():
    refused(gpudoctor("check", "--config", "nowhere.toml"), 2, "--config nowhere.toml: no such file")


def test_arguments_without_a_script():
    refused(gpudoctor("check", "--", "--lr", "1"), 2, "are for a script")


@pytest.mark.parametrize("words", [("--ranks", "0"), ("--gpus", "-1"), ("--ranks", "two"), ("--pid", "0")])
def test_bad_numbers(words):
    refused(gpudoctor("check", *words), 2, words[0])


def test_no_such_process():
    refused(gpudoctor("check", "--pid", "999999999"), 3, "999999999")


def test_output_folder_missing_or_read_only(tmp_path):
    refused(gpudoctor("check", "--output", str(tmp_path / "no" / "r.json")), 2, "does not exist")
    refused(gpudoctor("check", "--output", str(tmp_path)), 2, "is a folder")
    if os.geteuid() != 0:
        folder = tmp_path / "locked"
        folder.mkdir()
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
        refused(gpudoctor("check", "--output", str(folder / "r.json")), 2, "not writable")
        assert list(folder.iterdir()) == []


def test_output_goes_to_the_file_and_a_summary_to_stderr(tmp_path):
    path = tmp_path / "r.json"
    done = gpudoctor("check", "--format", "json", "--output", str(path), "--fail-on", "never")
    assert done.stdout == ""
    assert "Report:" in done.stderr
    assert path.read_text().startswith("{")
    assert [item.name for item in tmp_path.iterdir()] == ["r.json"]


def test_closed_pipe():
    command = f"{shlex.quote(sys.executable)} -m gpudoctor check --verbose; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -c 10 > /dev/null"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert "code" in done.stderr


def test_closed_standard_output():
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m gpudoctor check >&-"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_ascii_terminal(tmp_path):
    (tmp_path / "träin.py").write_text("# größe 中文\n" + WELL, encoding="utf-8")
    done = gpudoctor("check", "träin.py", cwd=tmp_path, PYTHONUTF8="0", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)


def test_ctrl_c(tmp_path):
    """An interrupt in mid-examination: one line, exit code 130."""
    module = "import signal, time, gpudoctor.cli.check as c, gpudoctor.engine.examination as e\n"
    # A background job of a shell starts with interrupts ignored, and its children inherit that.
    module += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    module += "def slow(*a, **k):\n    print('started', flush=True)\n    time.sleep(30)\n"
    module += "e.examine = slow\nimport sys, gpudoctor.cli\nsys.exit(gpudoctor.cli.main(['check', '--quiet']))\n"
    child = subprocess.Popen([sys.executable, "-c", module], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == 130
    assert errors.strip() == "gpudoctor: interrupted"


def test_a_folder_that_vanished():
    """The working folder is gone: still a sentence."""
    python = shlex.quote(sys.executable)
    done = subprocess.run(
        ["bash", "-c", f'd=$(mktemp -d) && cd "$d" && rmdir "$d" && {python} -m gpudoctor check train.py'],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    refused(done, 2, "train.py")
