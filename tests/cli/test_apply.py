"""`gpudoctor apply`: the edits of a saved report, written without another run."""

import json
from dataclasses import replace

import pytest
from command import gpudoctor
from sample_reports import SHM, full_report

from gpudoctor.report.json import render

SICK = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\nfor step in range(9):\n    pass\n"
EDIT = {
    "kind": "text", "path": "train.py", "line": 3, "column": 35, "end_line": 3, "end_column": 39, "new_text": "False",
    "expected": "True",
}  # fmt: skip
REMEDY = {
    "id": "OBS005-off", "title": "remove it", "applicability": "safe", "effort": "one line", "steps": ["remove it"],
    "edits": [EDIT],
}  # fmt: skip
BY_HAND = {**REMEDY, "id": "OBS001-once", "edits": []}


def report(trial=None, remedies=(REMEDY, BY_HAND)):
    document = json.loads(render(replace(full_report(), findings=(SHM,))))
    [finding] = document["findings"]
    return {**document, "findings": [{**finding, "remedies": list(remedies)}], "trial": trial}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(SICK)
    (tmp_path / "report.json").write_text(json.dumps(report()))
    return tmp_path


def trial(conclusion, patch="--- a"):
    row = {"name": "OBS005-off", "title": "remove it", "conclusion": conclusion, "proof": None, "pairs": []}
    numbers = {"step_seconds": None, "warm_up_steps": 3, "steps": 16}
    return {**numbers, "patch": patch, "rows": [row], "together": None}


@pytest.mark.parametrize("conclusion", ["proven", "cured"])
def test_what_a_trial_has_proven_is_written(folder, conclusion):
    (folder / "report.json").write_text(json.dumps(report(trial(conclusion))))
    shown = gpudoctor("apply", "report.json", "--diff", cwd=folder)
    assert "+torch.autograd.set_detect_anomaly(False)" in shown.stdout
    assert (folder / "train.py").read_text() == SICK
    done = gpudoctor("apply", "report.json", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert (folder / "train.py").read_text() == SICK.replace("True", "False")


def test_a_line_that_has_changed_is_left(folder):
    (folder / "train.py").write_text(SICK.replace("True", "1 > 0"))
    done = gpudoctor("apply", "report.json", "--remedy", "OBS005-off", cwd=folder)
    assert done.returncode == 3
    assert "line 3 has changed since it was examined" in done.stderr
    assert "1 > 0" in (folder / "train.py").read_text()


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (None, [], "has no trial, so nothing is proven"),
        (report(trial("slower", None)), [], "have proven no edit"),
        (None, ["--remedy", "OBS001-once"], "a person must do it"),
        (None, ["--remedy", "OBS009-x"], "there are: OBS005-off"),
        ([1], [], "is not a JSON report of gpudoctor"),
        ({"schema": "gpudoctor.report/1", "findings": [{}]}, [], "the report is damaged"),
        (report(remedies=[{**REMEDY, "edits": [{**EDIT, "kind": "run"}]}]), [], "the report is damaged"),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_a_sentence(folder, content, words, said):
    if content is not None:
        (folder / "report.json").write_text(json.dumps(content))
    done = gpudoctor("apply", "report.json", *words, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert (folder / "train.py").read_text() == SICK


def test_another_folder_is_named(folder, tmp_path_factory):
    done = gpudoctor(
        "apply", str(folder / "report.json"), "--remedy", "OBS005-off", cwd=tmp_path_factory.mktemp("other")
    )
    assert done.returncode == 2 and "start apply in the folder where the report was made" in done.stderr
