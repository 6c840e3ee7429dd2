"""benchmarks/estimate_accuracy.py on a few rows of published measurements (sources are in the rows)."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "benchmarks" / "estimate_accuracy.py"
SAMPLE = Path(__file__).with_name("sample.csv")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report() -> dict:
    done = run("--table", str(SAMPLE), "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_report_counts_every_row_once_and_is_near(report):
    keys = {"source", "method", "metric", "rows", "mapped", "median_ratio", "mdape", "p90", "worst_under", "worst_over"}
    assert report["groups"] and all(keys <= set(group) for group in report["groups"])
    assert report["overall"]["rows"] == 4
    assert report["overall"]["mdape"] < 0.01 and report["overall"]["worst_under"] > -0.05
    assert report["static"]["rows"] == 2 and report["static"]["mdape"] < 0.005
    assert report["unmapped"] and all(entry["reason"] and entry["row"] for entry in report["unmapped"])
    total = sum(1 for _ in csv.DictReader(SAMPLE.open(encoding="utf-8")))
    assert report["rows"] == total == report["mapped"] + len(report["unmapped"])
    for what in ("source", "family"):
        entries = [entry for entry in report["kept_out"] if entry["what"] == what]
        assert sum(entry["its"]["rows"] for entry in entries) == 4
        assert all(entry["its"]["rows"] + entry["others"]["rows"] == 4 for entry in entries)
    assert report["verdicts"]["oom"]["rows"] == report["verdicts"]["oom"]["right"] == 1
    assert report["verdicts"]["ran"]["right"] == report["verdicts"]["ran"]["rows"]
