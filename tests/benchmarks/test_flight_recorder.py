"""The dumps that the benchmark makes are those of torch, and autopsy names the rank that does not come."""

import importlib.util
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "flight_recorder.py"


def loaded():
    spec = importlib.util.spec_from_file_location("flight_recorder_benchmark", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_dump_has_the_entries_of_a_ring_that_went_round():
    made = loaded()
    job = made.Job(ranks=16, entries=100, bad=5, layer=7)
    for rank, operation in ((5, "nccl:all_reduce"), (4, "nccl:all_reduce"), (12, "nccl:_reduce_scatter_base")):
        value = pickle.loads(made.dump(job, rank, 0))
        assert value["version"] == "2.10" and len(value["entries"]) == 100
        numbers = [entry["record_id"] for entry in value["entries"]]
        assert numbers == list(range(numbers[0], numbers[0] + 100)) and numbers[0] > 0
        last = value["entries"][-1]
        assert last["profiling_name"] == operation and len(last["frames"]) == made.DEPTH
        assert (last["state"] == "completed") is (rank == 5)
        assert last["process_group"][0] in value["pg_config"]


@pytest.mark.slow
def test_the_rank_that_does_not_come_is_named():
    words = [sys.executable, str(PROGRAM), "--ranks", "64", "--entries", "200", "--json"]
    produced = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert produced.returncode == 0, produced.stderr
    found = json.loads(produced.stdout)["gpudoctor"]
    assert found["right"] and found["damaged_named"] == 2
