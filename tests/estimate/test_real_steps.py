"""Real steps that benchmarks/estimate_gpu.py measured, against the formulas of today: nothing is run."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "benchmarks" / "data" / "real-steps-cpu.csv"


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> list[dict[str, str]]:
    found = tmp_path_factory.mktemp("steps") / "anew.csv"
    program = str(ROOT / "benchmarks" / "estimate_gpu.py")
    done = subprocess.run(
        [sys.executable, program, "--cpu", "--anew", str(TABLE), "--output", str(found)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with found.open(encoding="utf-8", newline="") as stream:
        assert stream.readline() == TABLE.read_text("utf-8").split("\n", 1)[0] + "\n"
        return list(csv.DictReader(stream))


def test_at_least_twenty_configurations_of_several_kinds(rows):
    named = {row["configuration"] for row in rows}
    assert len(named) >= 20
    for word in (
        "full",
        "lora",
        "qlora",
        "freeze",
        "checkpointing",
        "all kept",
        "attention=eager",
        "accumulate=2",
    ):
        assert any(word in name for name in named)


def test_peaks_are_within_a_percent(rows):
    misses = {row["configuration"]: float(row["ratio"]) - 1 for row in rows if row["instant"] == "peak"}
    assert {name: miss for name, miss in misses.items() if abs(miss) > 0.01} == {}


@pytest.mark.parametrize(
    ("instant", "most"), [("static", 0.001), ("step", 0.001), ("backward", 0.03), ("layer", 0.03)]
)
def test_instants_are_near(rows, instant, most):
    misses = {row["configuration"]: float(row["ratio"]) - 1 for row in rows if row["instant"] == instant}
    assert len(misses) >= 20
    assert {name: miss for name, miss in misses.items() if abs(miss) > most} == {}


def test_a_table_that_is_not_one_is_refused(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("# nothing\na,b\n1,2\n")
    program = str(ROOT / "benchmarks" / "estimate_gpu.py")
    done = subprocess.run(
        [sys.executable, program, "--cpu", "--anew", str(other)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "measured_bytes" in done.stderr
