"""The patients of the trials: their twins, what is read out of reports, the noise."""

import ast
import importlib
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
