"""`gpudoctor check` of a command: what to type instead."""

import shlex

import pytest

from gpudoctor.cli import main

TRAINING = """
import torch
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.randn(4, 2).cuda()).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ddp.py").write_text(TRAINING)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text(TRAINING)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("torchrun --nproc-per-node 2 ddp.py", "gpudoctor check ddp.py"),
        ("torchrun --nproc_per_node=2 ddp.py --lr 3", "gpudoctor check ddp.py -- --lr 3"),
        ("accelerate launch --num_processes 2 ddp.py", "gpudoctor check ddp.py"),
        ("deepspeed --num_gpus 2 ddp.py", "gpudoctor check ddp.py"),
        ("python ddp.py", "gpudoctor check ddp.py"),
        ("python -m torch.distributed.run --nproc_per_node 2 ddp.py", "gpudoctor check ddp.py"),
        ("srun -n 2 python ddp.py", "gpudoctor check ddp.py"),
    ],
)
def test_a_command_is_told_apart_from_files(command, check, folder, capsys):
    assert main(["check", *command.split()]) == 2
    said = capsys.readouterr().err
    assert f"examine the script: `{check}`" in said
    assert f"run the command: `gpudoctor run -- {command}`" in said
    assert (
        main(["check", "--quiet", "--select", "OBS", *shlex.split(check)[2:]]) != 2
    )  # what it says to type can be typed


def test_arguments_of_the_script_stand_behind_two_dashes(folder, capsys):
    assert main(["check", "ddp.py", "--lr", "3"]) == 2
    assert "put the arguments of ddp.py after --: `gpudoctor check ddp.py -- --lr 3`" in capsys.readouterr().err


def test_a_mistyped_flag_is_still_named(folder, capsys):
    assert main(["check", "--strickt"]) == 2
    assert "unknown argument: --strickt; did you mean --strict?; see: gpudoctor check --help" in capsys.readouterr().err
