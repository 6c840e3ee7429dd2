"""The patients of the trials: their twins, what is read out of reports, the noise, the page."""

import ast
import importlib
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    """Imports modules of the benchmark by name, as its programs do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in [name for name in sys.modules if name == "trials" or name.startswith("trials.")]:
        sys.modules.pop(name)
    sys.modules.pop("trial_null", None)


def test_every_patient_has_a_well_twin_that_says_nothing_of_the_cause(module):
    corpus = module("trials.corpus")
    assert len(corpus.PATIENTS) >= 8
    assert {path.stem for path in corpus.FOLDER.glob("*.py")} == {item.name for item in corpus.PATIENTS}
    assert sum(item.ranks == 2 for item in corpus.PATIENTS) >= 1
    for patient in corpus.PATIENTS:
        sick, well = corpus.twins(patient.text)
        assert sick != well
        assert not ast.get_docstring(ast.parse(sick)), "the cause is not written on the patient"
        ast.parse(well)
        assert "# sick" not in sick + well and "# well" not in sick + well
        assert "step seconds" in sick and "step seconds" in well
        assert patient.what and not patient.what.endswith(".")


def test_the_programs_own_clock_is_read(module):
    said = module("trials.corpus").said_seconds
    assert said("1\nstep seconds 0.5\nmore\nstep seconds 0.25\n") == 0.25
    assert said("no step seconds") is None


def report(conclusion="proven", code="OBS003"):
    proof = {"ratio": 2.0, "low": 1.8, "high": 2.2, "pairs": 3, "loss": "identical", "verdict": "faster"}
    row = {"name": f"{code}-every", "title": "seldom", "conclusion": conclusion, "reason": None, "proof": proof}
    finding = {"code": code, "severity": "warning", "remedies": [{"id": f"{code}-every"}]}
    return {"findings": [finding], "trial": {"rows": [row], "together": None, "patch": "x"}}


def test_a_report_is_judged(module):
    cure = module("trials.cure")
    outcome = cure.Outcome(name="a", what="b")
    cure.judge(report(), ("OBS003",), outcome)
    assert outcome.found and outcome.proven and outcome.remedy == "seldom" and outcome.proof["ratio"] == 2.0
    other = cure.Outcome(name="a", what="b")
    cure.judge(report(code="OBS004"), ("OBS003",), other)
    assert not other.found and not other.proven
    unclear = cure.Outcome(name="a", what="b")
    cure.judge(report(conclusion="no clear difference"), ("OBS003",), unclear)
    assert unclear.found and not unclear.proven and unclear.error == "no clear difference"


def test_the_other_tools_report_is_judged_generously(module):
    rival = module("trials.rival")
    said = {
        "candidates": [],
        "suggestions": [{"id": "no_torch_compile"}, {"id": "checkpoint_in_hot_loop"}],
        "proven": None,
    }
    outcome = rival.Theirs(name="a")
    rival.judge_theirs(said, ("checkpoint_in_hot_loop",), outcome)
    assert outcome.found and not outcome.proven and outcome.findings == ("checkpoint_in_hot_loop",)


def test_measured_noise_is_resampled_with_its_neighbours(module, tmp_path):
    null = module("trial_null")
    path = tmp_path / "noise.csv"
    rows = [f"{n},{1 + n / 100},5,3.0,0.1,job.py" for n in range(16)]
    path.write_text("window,seconds,steps,lap_seconds,load,command\n" + "\n".join(rows) + "\n")
    noise = null.read_noise(path)
    assert list(noise) == ["job.py"] and noise["job.py"][3] == 1.03
    window = null.resampled(list(noise.values()))(random.Random(1))
    block = [window() for _ in range(null.BLOCK)]
    assert [round(b - a, 6) for a, b in pairwise(block)] == [0.01] * (null.BLOCK - 1)
    assert null.spread([1.0, 1.0, 2.0, 2.0]) == 0.0


def test_identical_commands_are_seldom_called_faster(module, capsys):
    null = module("trial_null")
    rows = null.simulate({"normal": null.normal(0.02), "drift": null.drifting}, trials=150, seed=3)
    capsys.readouterr()
    assert all(row["faster"] <= 0.05 for row in rows if row["true"] == 1.0)
    assert all(row["faster"] >= 0.9 for row in rows if row["true"] == 1.10)


def test_the_page_shows_the_data(module):
    page = module("trials.page")
    assert page.PAGE.read_text("utf-8") == page.page()


def test_rows_of_the_page(module):
    page, cure, rival = module("trials.page"), module("trials.cure"), module("trials.rival")
    ours = cure.Outcome(
        name="a", what="Saved too often", code="OBS003", found=True, proven=True, kept=True, healthy=True, reached=True,
        proof=report()["trial"]["rows"][0]["proof"], ratios=[1.02, 1.0, 1.01], sick_seconds=0.02,
        mended_seconds=0.01, well_seconds=0.01, verify_seconds=60.0,
    )  # fmt: skip
    assert ours.cured
    theirs = rival.Theirs(name="a", findings=("checkpoint_in_hot_loop",), found=True, seconds=50.0)
    how = {"date": "2026-01-02", "machine": "a CPU", "python": "3", "versions": {"torch": "2"}, "pairs": 3,
           "remark": "Busy"}  # fmt: skip
    data = {
        "how": how,
        "gpudoctor": {"a": {**vars(ours), "ratio_to_well": ours.ratio, "cured": ours.cured}},
        "train-doctor": {"a": json.loads(json.dumps(vars(theirs)))},
    }
    text = page.patients(data)
    words = " ".join(text.split())
    assert "**1 of 1 cured**. " in words and "The machine has a CPU. Busy." in words
    assert (
        "| Saved too often | OBS003 | 2.00x [1.80, 2.20] | 3 | identical | yes | 20 ms | 10 ms | 10 ms |"
        in text
    )
    assert "| 1.01 | 60 s | checkpoint_in_hot_loop | nothing | - | 50 s |" in text
