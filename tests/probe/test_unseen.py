"""A program that looks for the probe sees itself: the programs of `benchmarks/attack`, bare and with the probe."""

from pathlib import Path

import pytest
from packages import need
from probed import run_script, run_without

need("torch")

PROGRAMS = Path(__file__).resolve().parents[2] / "benchmarks" / "attack" / "programs"
SEEN = (
    "pickled_functions", "signatures", "threads_enumerated", "frames_below", "warnings_with_levels",
    "closure_raises", "print_raises", "function_mode_counts", "subclass_counts", "parameters_are_freed",
    "faulthandler_used", "hostile_objects", "lengths_not_asked",
)  # fmt: skip
"""One of each kind; all of them run in the benchmark."""


@pytest.mark.parametrize("name", SEEN)
def test_a_program_that_looks_for_us_sees_what_it_sees_without(tmp_path, name):
    text = (PROGRAMS / f"{name}.py").read_text()
    folder = tmp_path / "with"
    folder.mkdir()
    (folder / "training.py").write_text((PROGRAMS / "training.py").read_text())
    run = run_script(folder, text, prefix="", code=None)
    # The same path, for tracebacks hold it.
    plain = run_without(run.script)
    assert run.result.stdout == plain.stdout
    assert run.result.stderr == plain.stderr
    assert run.result.returncode == plain.returncode
    assert run.ranks[0].steps("index"), "it was recorded"
    assert not run.ranks[0].of("lost")
