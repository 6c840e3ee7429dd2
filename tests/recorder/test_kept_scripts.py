"""scripts.json: what ran is quoted, whatever became of the file."""

import hashlib
import json
import sys

from recordings import make_process, make_recording, make_steps, record, write_recording

from gpudoctor.cli import main
from gpudoctor.recorder.folder import keep_scripts

SLOW = """\
import torch
import parts
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    optimizer.zero_grad()
    model(torch.ones(4)).backward()
    optimizer.step()
"""


def kept(folder):
    return json.loads((folder / "scripts.json").read_text())["scripts"]


def test_the_script_and_its_modules_are_kept_without_secrets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    secret = 'API_KEY = "sk-proj-abcdefghijklmnop1234567890"\n'
    (tmp_path / "train.py").write_text(SLOW)
    (tmp_path / "parts.py").write_text(secret)
    (tmp_path / "other.py").write_text("x = 1\n")
    keep_scripts(tmp_path, [sys.executable, "train.py"])
    assert kept(tmp_path) == {
        str(tmp_path / "train.py"): [hashlib.sha256(SLOW.encode()).hexdigest(), SLOW],
        str(tmp_path / "parts.py"): [hashlib.sha256(secret.encode()).hexdigest(), 'API_KEY = "***"\n'],
    }


def test_a_text_beyond_the_budget_is_a_hash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import parts\n" + "# a comment\n" * 60_000)
    (tmp_path / "parts.py").write_text("# a comment\n" * 80_000)
    monkeypatch.setattr("gpudoctor.recorder.folder._TEXT", 1 << 20)
    keep_scripts(tmp_path, [sys.executable, "train.py"])
    assert [text is None for _, text in kept(tmp_path).values()] == [False, True]


def test_a_command_without_a_script_keeps_none(tmp_path):
    keep_scripts(tmp_path, [sys.executable, "-c", "pass"])
    assert not (tmp_path / "scripts.json").exists()


def test_a_report_quotes_what_ran_and_edits_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(SLOW)
    on = record("window", 1.0, what="detect_anomaly", begin=0, end=99, steps=100, on=True, path=str(script), line=3)
    run = make_recording(
        make_process(make_steps(100), records=[on]),
        cwd=str(tmp_path),
        scripts={str(script): (hashlib.sha256(SLOW.encode()).hexdigest(), SLOW)},
    )
    folder = str(write_recording(run, tmp_path / "rec"))

    def report():
        assert main(["report", folder, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        [finding] = [item for item in found["findings"] if item["code"] == "OBS005"]
        lines = [item["text"] for item in finding["evidence"] if "text" in item]
        return lines, any(remedy["edits"] for remedy in finding["remedies"]), found["remarks"]

    lines, edits, remarks = report()
    assert lines == ["torch.autograd.set_detect_anomaly(True)"] and edits and not remarks
    script.write_text("# a line\n" + SLOW.replace("torch.autograd.set_detect_anomaly(True)", "pass"))
    lines, edits, remarks = report()
    assert lines == ["torch.autograd.set_detect_anomaly(True)"] and not edits
    assert remarks == ["train.py has changed since the run began: gpudoctor shows the lines that ran"]
    script.unlink()
    assert report() == (lines, edits, remarks)
    assert main(["report", folder]) == 0
    shown = capsys.readouterr().out.split("\n")
    at = next(place for place, line in enumerate(shown) if "train.py:3   torch.autograd" in line)
    assert shown[at + 1].strip("^ ") == ""  # carets below the name
