"""`gpudoctor THING` and `gpudoctor` alone: things lead to the command that examines them, or it is named."""

import json
import os
import re
from pathlib import Path

import pytest
from flight_dumps import make_ranks, write
from recordings import make_process, make_recording, make_steps, write_recording

from gpudoctor.cli import front_door, main, start_here
from gpudoctor.cli.parser import COMMANDS
from gpudoctor.errors import UsageError

DEATH = "step 3\nTraceback (most recent call last):\n  File 'train.py', line 3\nRuntimeError: boom\n"
TRAINING = "import torch\nloss.backward()\nif __name__ == '__main__':\n    main()\n"


def meant_command(words: list[str]) -> list[str]:
    return front_door.meant_command(words, COMMANDS)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


@pytest.fixture
def things(here) -> Path:
    for name, text in {
        "train.py": TRAINING, "ds.json": '{"train_batch_size": 8}', "conf.yaml": "lr: 1", "job.sbatch": "#!/bin/bash\n",
        "job.out": DEATH, "notes.txt": "epoch 1\n",
        "dmesg.log": "[  1.0] NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n",
        "sacct.txt": "JobID|State|ExitCode\n1|FAILED|1:0\n",
    }.items():  # fmt: skip
        (here / name).write_text(text)
    (here / "model.bin").write_bytes(b"\x00\x01\x02" * 100)
    (here / "src").mkdir()
    (here / "src" / "model.py").write_text("import torch\n")
    (here / "logs").mkdir()
    (here / "logs" / "rank0.log").write_text(DEATH)
    write_recording(make_recording(make_process(make_steps(20))), here / "run-1")
    write_recording(make_recording(make_process(make_steps(20))), here / "run-2")
    return here


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("train.py", "check"), ("conf.yaml", "check"), ("ds.json", "check"), ("job.sbatch", "check"), ("src", "check"),
        ("train.py ds.json --format json", "check"),
        ("job.out", "autopsy"), ("notes.txt", "autopsy"), ("logs", "autopsy"), ("-", "autopsy"),
        ("train.py job.out", "autopsy"), ("job.out dmesg.log", "autopsy"), ("sacct.txt", "autopsy"),
        ("dmesg.log", "report"),
        ("run-1", "report"),
    ],
)  # fmt: skip
def test_a_thing_leads_to_its_command(things, capsys, words, command):
    assert meant_command(words.split()) == [*command.split(), *words.split()]
    assert f"gpudoctor {command} {words}" in capsys.readouterr().err


def test_a_dump_of_the_flight_recorder_and_a_process(things, capsys):
    (things / "dumps").mkdir()
    names = write(things / "dumps", make_ranks(2))
    assert meant_command(names)[0] == "autopsy"
    assert meant_command([str(os.getpid()), "--once", "-q"]) == ["watch", str(os.getpid()), "--once", "-q"]
    assert "process" not in capsys.readouterr().err.splitlines()[-1]  # -q: nothing is said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("chek train.py", "did you mean `gpudoctor check train.py`"),
        ("lsit", "did you mean `gpudoctor list`"),
        ("python train.py", "`gpudoctor run -- python train.py`"),
        ("DATA001", "gpudoctor explain DATA001"),
        ("oom", "gpudoctor explain oom"),
        ("trian.py", "no such file or folder; did you mean train.py?"),
        ("99999999", "no such process"),
        ("model.bin", "binary file"),
    ],
)
def test_what_is_meant_is_named(things, words, sentence):
    with pytest.raises(UsageError) as refusal:
        meant_command(words.split())
    assert sentence in str(refusal.value)


def test_a_thing_is_examined(things, capsys):
    assert main(["job.out", "-q"]) == 1
    assert "RuntimeError: boom" in capsys.readouterr().out


def test_alone_it_names_what_is_here(things, capsys, monkeypatch):
    monkeypatch.setattr(start_here, "_trainings", lambda: [("A training runs: pid 7", ("gpudoctor watch 7",))])
    folder = things.parent / "state/gpudoctor/recordings/run-2"
    write_recording(make_recording(make_process(make_steps(20)), command=("python", "x.py")), folder)
    (folder / "end.json").write_text('{"exit_code": 1, "stopped_by": null}')
    manifest = json.loads((folder / "recording.json").read_text())
    (folder / "recording.json").write_text(json.dumps({**manifest, "started": ""}))
    assert main([]) == 0
    out = capsys.readouterr().out
    order = ["gpudoctor watch 7", "gpudoctor autopsy", "gpudoctor report", "gpudoctor check train.py",
             "gpudoctor run -- python train.py", "gpudoctor check job.sbatch", "gpudoctor --help"]  # fmt: skip
    assert [out.index(words) for words in order] == sorted(out.index(words) for words in order)
    assert "RuntimeError: boom" in out and "x.py died" in out


def test_alone_where_nothing_is(here, capsys, monkeypatch):
    monkeypatch.setattr(start_here, "_trainings", list)
    (here / "well.log").write_text("Traceback (most recent call last):\nValueError: handled\n" + "step\n" * 80)
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "gpudoctor check" in out and "autopsy" not in out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_short_help_is_one_screen_with_every_name_of_the_whole_help(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    texts = []
    for flag in ("-h", "--help"):
        with pytest.raises(SystemExit):
            main([*filter(None, (command,)), flag])
        texts.append(capsys.readouterr().out)
    short, whole = texts
    names = set(re.findall(r"--[a-z][a-z-]+(?= |$)", re.sub(r"(?s)\nexamples:.*", "", whole), re.M))
    assert (short.count("\n") <= 30 and "examples:" in short) or short == whole
    assert {"--help"} < names <= set(short.split())
    assert command or set(COMMANDS) < set(short.split())
