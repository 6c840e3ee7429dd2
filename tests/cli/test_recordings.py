"""`gpudoctor recordings`, and `report` without an argument: the state folder's recordings, listed and removed."""

import json
import os
import time
from pathlib import Path

import pytest
from recordings import make_process, make_recording, make_steps, write_recording

from gpudoctor.cli import main
from gpudoctor.recorder.kept_recordings import kept_recordings, newest_recording

HOUR = 3600.0


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    folder = tmp_path / "a state" / "gpudoctor" / "recordings"
    folder.mkdir(parents=True)
    return folder


def recorded(state: Path, name: str, hours: float = 0.0, steps: int = 60, **manifest: object) -> Path:
    """A recording that began so many hours ago."""
    folder = state / name
    write_recording(make_recording(make_process(make_steps(steps))), folder)
    path = folder / "recording.json"
    began = time.time() - hours * HOUR
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(began))
    path.write_text(json.dumps({**json.loads(path.read_text()), "started": stamp, **manifest}))
    os.utime(path, (began, began))
    return folder


def test_the_list_has_the_newest_first_with_command_steps_size_and_outcome(state, capsys):
    recorded(state, "run-old", 50, command=["/usr/bin/python", "old.py"])
    recorded(state, "run-new", 1, command=["python", "new.py"])
    (state / "run-new" / "verdict.json").write_text(json.dumps({"verdict": "Slow.", "steps": 12}))
    (state / "no-recording").mkdir()
    assert main(["recordings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run-new  1 h ago") and "12 steps" in lines[0] and lines[0].endswith("python new.py")
    assert lines[1] == "    /job: Slow."
    assert "2 days ago" in lines[2] and lines[2].endswith("python old.py")
    assert lines[5].startswith("2 recordings, ") and str(state) in lines[5]
    assert "--keep 10" not in " ".join(lines)  # nothing would be removed


@pytest.mark.parametrize(
    ("flags", "left"),
    [(["--keep", "1"], ["run-1"]), (["--remove", "run-2"], ["run-1", "run-3"]), (["--remove", "run-*"], [])],
)
def test_removing_shows_first_and_then_removes(state, capsys, flags, left):
    for number, hours in ((1, 1), (2, 30), (3, 300)):
        recorded(state, f"run-{number}", hours)
    assert main(["recordings", *flags]) == 0
    shown = capsys.readouterr().out
    assert "nothing was removed" in shown and "--yes" in shown
    assert len(list(state.iterdir())) == 3
    assert main(["recordings", *flags, "--yes"]) == 0
    assert f"removed {3 - len(left)} recording" in capsys.readouterr().out
    assert sorted(path.name for path in state.iterdir()) == left


def test_what_is_being_written_is_never_removed(state, capsys):
    folder = recorded(state, "run-now")
    (folder / "end.json").unlink()
    (folder / "machine.gdr").touch()
    assert main(["recordings", "--keep", "0", "--yes"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert kept_recordings()[0].outcome == "running"
    assert main(["recordings", "--remove", "run-now", "--yes"]) == 2
    assert "it is being written now" in capsys.readouterr().err


def test_bad_input_and_nothing_there(state, capsys):
    assert main(["recordings"]) == 0
    assert "gpudoctor run -- python train.py" in capsys.readouterr().out
    assert main(["recordings", "--remove", "run-x", "--yes"]) == 2
    assert "no recording has this name" in capsys.readouterr().err
    assert main(["report"]) == 2
    assert "gpudoctor run -- python train.py" in capsys.readouterr().err


def test_report_without_an_argument_is_the_last_recording_and_keeps_its_verdict(state, capsys):
    recorded(state, "run-old", 5, steps=20)
    recorded(state, "run-new", 1, steps=200, command=["python", "new.py"])
    assert newest_recording().name == "run-new"
    assert main(["report"]) == 0
    assert "gpudoctor: run-new (1 h ago, in /job): python new.py" in (told := capsys.readouterr()).err
    assert "200 steps" in told.out
    assert (newest := kept_recordings()[0]).steps == 200 and newest.verdict.split()[0] in told.out
    assert (state / "run-new" / "verdict.json").stat().st_mode & 0o777 == 0o600
    assert main(["report", "run-old", "--quiet"]) == 0  # by its name, from any folder
    assert "20 steps" in capsys.readouterr().out
    recorded(state, "run-here", 9, cwd=os.getcwd())  # older, and of this folder
    assert newest_recording().name == "run-here"
