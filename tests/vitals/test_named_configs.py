"""Configs that a launch line, a command line or a script names belong to the patient."""

import json

import pytest

from gpudoctor.cli import main

TRAIN = """
from transformers import Trainer, TrainingArguments

Trainer(model=None, args=TrainingArguments(output_dir="out"{more})).train()
"""
ENGINE = '{"fp16": {"enabled": true}, "bf16": {"enabled": true}}'


def conflicts(capsys, *words):
    main(["check", *words[:1], "--format", "json", "--select", "CFG001", "--fail-on", "never", *words[1:]])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {
        place["path"].removeprefix("./") for finding in findings for place in finding["evidence"] if place.get("path")
    } - {"train.py"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "ds.json").write_text(ENGINE)
    (tmp_path / "train.py").write_text(TRAIN.format(more=""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "deepspeed train.py --deepspeed ds.json",
        "torchrun --nproc_per_node=2 train.py --deepspeed_config=ds.json",
        "accelerate launch --config_file ds.json train.py",
        "python train.py ds.json",
    ],
)
def test_on_a_launch_line(line, folder, capsys):
    (folder / "job.sh").write_text(f"#!/bin/bash\n{line}\n")
    assert conflicts(capsys, "job.sh") == {"ds.json"}


def test_in_the_script(folder, capsys):
    (folder / "train.py").write_text(TRAIN.format(more=', deepspeed="ds.json"'))
    assert conflicts(capsys, "train.py") == {"ds.json"}


@pytest.mark.parametrize(
    "words",
    [["--train_file", "ds.json"], ["--config_name", "ds.json"], ["--deepspeed", "gone.json"], ["--lr", "ds.json"]],
)
def test_data_and_absent_files_are_left_alone(words, folder, capsys):
    assert conflicts(capsys, "train.py", "--", *words) == set()
