"""The scripts are tried in the real shells, where these are installed."""

import shutil
import subprocess

import pytest

from gpudoctor.cli import main
from gpudoctor.cli.completion import SHELLS, script_for
from gpudoctor.cli.parser import COMMANDS
from gpudoctor.engine.registry import load_registry

CODES = [str(code) for code in load_registry().checks]


@pytest.fixture(params=SHELLS)
def shell(request):
    return request.param


@pytest.fixture
def script(tmp_path, capsys):
    def write(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / f"completion.{shell}"
        path.write_text(capsys.readouterr().out)
        return path

    return write


def test_a_script_knows_commands_flags_and_codes(shell, script):
    text = script(shell).read_text()
    flag = {"fish": "fail-on"}.get(shell, "--fail-on")
    for word in (*COMMANDS, flag, *CODES[:3], "markdown"):
        assert word in text


def test_the_shell_reads_its_script(shell, script):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run([shell, "-n", script(shell)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def _complete(script, *words):
    """What bash offers for the last of the words."""
    program = (
        'source "$1"; shift; complete -p gpudoctor >/dev/null || exit 9; COMP_WORDS=("$@"); '
        'COMP_CWORD=$(($# - 1)); _shtab_gpudoctor; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", program, "bash", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=script.parent)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(script):
    path = script("bash")
    (path.parent / "train one.py").write_text("")
    assert _complete(path, "gpudoctor", "ch") == ["check"]
    assert set(COMMANDS) <= set(_complete(path, "gpudoctor", ""))
    assert _complete(path, "gpudoctor", "explain", CODES[0]) == [CODES[0]]
    assert _complete(path, "gpudoctor", "check", "--select", CODES[-1]) == [CODES[-1]]
    assert _complete(path, "gpudoctor", "check", "--format", "js") == ["json"]
    assert _complete(path, "gpudoctor", "check", "--fail") == ["--fail-on"]
    assert _complete(path, "gpudoctor", "check", "tra") == ["train one.py"]
    assert _complete(path, "gpudoctor", "completion", "z") == ["zsh"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_plugin_cannot_put_a_command_into_the_script(tmp_path):
    path = tmp_path / "completion.bash"
    path.write_text(script_for("bash", ["EVIL001"], ['$(touch pwned)"', "`touch pwned`"]))
    assert _complete(path, "gpudoctor", "explain", "") == ["EVIL001"]
    assert not (tmp_path / "pwned").exists()
