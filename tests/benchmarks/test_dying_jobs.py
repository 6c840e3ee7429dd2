"""A real gloo job of two ranks dies, and autopsy names the first cause from the merged log alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packages import need

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "dying_jobs.py"
DEATHS = ("killed",)


@pytest.mark.slow
def test_the_first_cause_of_real_deaths_is_named(tmp_path):
    need("torch")
    words = [sys.executable, str(PROGRAM), str(tmp_path)]
    produced = subprocess.run(
        [*words, "--how", "plain", "--ranks", "2", "--only", *DEATHS], capture_output=True, text=True, timeout=400
    )
    assert produced.returncode == 0, produced.stderr
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert {row["death"] for row in truth} == set(DEATHS)
    assert all(row["exit"] for row in truth), "a job that should die did not"
    scored = subprocess.run([*words, "--score"], capture_output=True, text=True, timeout=200)
    assert "first cause named: 1 of 1" in scored.stdout, scored.stdout + scored.stderr
