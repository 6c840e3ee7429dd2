"""Nobody else may read a recording, whatever the umask."""

import ast
import os
import stat
import sys
from pathlib import Path

import pytest
from command import gpudoctor
from some import some

from gpudoctor.probe.recording_file import FrameFile
from gpudoctor.probe.wire.frames import private
from gpudoctor.recorder.folder import CommandEnd, new_folder, write_end, write_manifest

ROOT = Path(__file__).parents[2]
ENDING = CommandEnd(exit_code=-11, signal="SIGSEGV", seconds=1.0, stopped_by=None)


@pytest.fixture(params=[0o000, 0o022], ids=["umask 000", "umask 022"])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_the_recorder_and_the_probe_write_is_for_the_user_alone(tmp_path, umask, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder, _ = new_folder(None)
    for place in (folder, folder.parent, folder.parent.parent):
        assert mode(place) == 0o700
    chosen, _ = new_folder(str(tmp_path / "chosen"))
    assert mode(chosen) == 0o700
    write_manifest(folder, ["python"], {})
    write_end(folder, ENDING)
    FrameFile(str(folder / "rank-0-1.gdr")).record("start", 0.0, {})
    with open(folder / "live-0-1.json.new", "w", opener=private):
        os.replace(folder / "live-0-1.json.new", folder / "live-0-1.json")
    assert {path.name: oct(mode(path)) for path in folder.iterdir()} == dict.fromkeys(
        ("recording.json", "end.json", "rank-0-1.gdr", "live-0-1.json"), "0o600"
    )


def test_a_run_leaves_no_file_that_others_may_read(tmp_path, umask):
    script = tmp_path / "x.py"
    script.write_text("print(1)\n")
    done = gpudoctor("run", "--recording", str(tmp_path / "rec"), "--", sys.executable, str(script), cwd=tmp_path)
    assert done.returncode == 0
    assert mode(tmp_path / "rec") == 0o700
    assert {oct(mode(path)) for path in (tmp_path / "rec").iterdir()} == {"0o600"}


def test_every_file_that_the_probe_or_the_recorder_opens_for_writing_has_a_mode():
    """`overrides` and `replay` write into the scratch folder of a trial, which is the user's alone."""
    open_ones = []
    for path in [*(ROOT / "gpudoctor/probe").glob("*.py"), *(ROOT / "gpudoctor/recorder").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            writes = name == "open" and any(set(one) <= set("rwaxbt+") and set(one) & set("wax+") for one in modes)
            if (writes and not any(word.arg == "opener" for word in node.keywords)) or name == "write_bytes":
                open_ones.append(f"{path.name}:{node.lineno}")
    assert open_ones == []


def test_paths_that_hold_a_token_are_masked_in_what_is_recorded(tmp_path, monkeypatch):
    token = "glpat-" + "aB3dE5gH7jK9mN1pQ3sT"
    monkeypatch.syspath_prepend(str(tmp_path / token))
    path = tmp_path / "rank-0-1.gdr"
    FrameFile(str(path)).record("site", 0.0, {"path": f"/home/{token}/train.py", "text": "a\n" + token})
    (tmp_path / "fault-0-1.txt").write_text(f'  File "/home/{token}/train.py", line 3 in f\n')
    write_end(tmp_path, ENDING)
    for file in some(tmp_path.glob("*.*")):
        assert token not in file.read_text(errors="replace")
    assert "train.py" in path.read_text(errors="replace")
