"""Bad input: a clear sentence, the right exit code, never a traceback, nothing half-written."""

import os
import shlex
import signal
import stat
import subprocess
import sys

import pytest
from command import gpudoctor

WELL = "import torch\n\nprint(torch.__version__)\n"


def refused(done, code, *said):
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout)
    text = done.stderr + done.stdout
    for words in said:
        assert words in text, text


WRONG = {
    "unknown command": ({}, "chek", 2, "did you mean `gpudoctor check`"),
    "unknown flag": ({}, "check --fail-onn error", 2, "did you mean --fail-on?"),
    "unknown code": ({}, "check --select DATA01", 2, "--select: unknown code 'DATA01'; did you mean DATA001?"),
    "unknown name": ({}, "check --ignore loader-bond", 2, "did you mean loader-bound?"),
    "empty folder": ({}, "check .", 2, "nothing to examine"),
    "recording": ({"run 1/recording.json": "{}"}, "check 'run 1'", 2, "gpudoctor report 'run 1'"),
    "binary file": ({"model.bin": b"\x00\x01\x02" * 100}, "check model.bin", 3, "model.bin: a binary file"),
    "syntax error": ({"train.py": "import torch\n\ndef f(:\n    pass\n"}, "check train.py", 3, "line 3"),
    "Python 2": ({"train.py": "import torch\nprint 'epoch', 1\n"}, "check train.py", 3, "line 2: syntax error"),
    "wrong encoding": ({"train.py": "# größe\nx = 1\n".encode("latin-1")}, "check train.py", 3, "UTF-8"),
    "settings": ({"gpudoctor.toml": "[tool.gpudoctor]\nselect = [\n"}, "check", 2, "not valid TOML"),
    "no settings": ({}, "check --config nowhere.toml", 2, "--config nowhere.toml: no such file"),
    "arguments": ({}, "check -- --lr 1", 2, "are for a script"),
    "no rank": ({}, "check --ranks 0", 2, "--ranks"),
    "no process": ({}, "check --pid 999999999", 3, "999999999"),
    "no output folder": ({}, "check --output no/r.json", 2, "does not exist"),
    "output is a folder": ({}, "check --output .", 2, "is a folder"),
    "unsafe alone": ({}, "check --unsafe", 2, "--unsafe needs --fix or --diff; add one of them"),
    "diff as JSON": ({"a.py": WELL}, "check a.py --diff --json", 2, "patch already, so remove --diff"),
    "fix of nothing": ({}, "check --fix", 2, "name one: gpudoctor check train.py --diff"),
    "ranks of nothing": ({}, "run -- torchrun --nproc_per_node 2 nothere.py", 2, "nothere.py: no such file"),
    "behind env": ({"train.py": WELL}, "run -- env A=1 python trian.py", 2, "did you mean train.py?"),
    "a shell script": ({}, "run -- bash nothere.sh", 2, "nothere.sh: no such file"),
    "no log": ({"job.sh": "#!/bin/bash\npython train.py\n"}, "autopsy job.sh", 2, "job.sh: not a log"),
    "two baselines": ({}, "check --baseline a --write-baseline b", 2, "saves every finding; remove --baseline\n"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_a_sentence(tmp_path, name):
    files, words, code, said = WRONG[name]
    for file, content in files.items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(gpudoctor(*shlex.split(words), cwd=tmp_path), code, said)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == len(files)


def test_a_script_of_a_container_is_not_sought_here(tmp_path):
    done = gpudoctor("run", "--", "no-such/docker", "run", "image", "python", "nothere.py", cwd=tmp_path)
    refused(done, 127, "docker: command not found")


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    refused(gpudoctor("check", "--output", str(tmp_path / "r.json")), 2, "not writable")


def test_closed_pipe():
    command = f"{shlex.quote(sys.executable)} -m gpudoctor check --verbose; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -c 10 > /dev/null"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert "code" in done.stderr


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
    refused(done, 3, "the working folder is gone")
