"""What is said of files that were read with a reservation, or not at all."""

import json

import pytest

from gpudoctor.cli import main

READ = {
    "ds.json": ('{\n // small\n "train_batch_size": 8, "fp16": {"enabled": true}, # last\n}\n', "JSON with comments"),
    "twice.yaml": ("training:\n  lr: 1\n  lr: 2\n", "training.lr is written twice (lines 2 and 3)"),
    "hydra.yaml": ("per_device_train_batch_size: ${bs}\nlearning_rate: 1e-4\noutput_dir: x\n", "Hydra or OmegaConf"),
}


@pytest.mark.parametrize("name", READ)
def test_a_reservation_is_said_and_spoils_nothing(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text, words = READ[name]
    (tmp_path / name).write_text(text)
    assert main(["check", name, "--select", "CFG"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert words in printed
    assert "incomplete" not in printed
    assert main(["check", name, "--select", "CFG", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert not report["problems"] and any(words in remark for remark in report["remarks"])


@pytest.mark.parametrize(
    ("name", "data"), [("bin.py", b"\x00\x01" * 99), ("syntax.py", b"def f(:\n"), ("ds.json", b"{ small\n}\n")]
)
def test_nobody_is_called_healthy_who_could_not_be_read(name, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(data)
    assert main(["check", name, "--ignore", "ENV,GPU"]) == 3
    printed = capsys.readouterr().out
    assert "healthy" not in printed and f"incomplete: {name}" in printed
