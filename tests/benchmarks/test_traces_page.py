"""The page of public traces is what its data say, and the judge's arithmetic is right where it is plain."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def traces():
    """The program; its folder is not put on the path, where its neighbours would hide the tests' helpers."""
    spec = importlib.util.spec_from_file_location("benchmark_traces", ROOT / "benchmarks" / "traces.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_data_say(traces):
    rows = json.loads(traces.DATA.read_text(encoding="utf-8"))
    assert traces.PAGE.read_text(encoding="utf-8") == traces.page(rows)
    assert len(rows) >= 25 and len({row["card"] for row in rows}) >= 5
    assert sum(row["group"] != "mend" for row in rows) * 3 >= len(rows)
    assert all(len(row["sha256"]) == 64 and len(row["commit"]) == 40 for row in rows)


def row(name: str, begin: float, length: float, category: str, tid: int = 1) -> dict:
    return {"name": name, "ph": "X", "ts": begin, "dur": length, "cat": category, "pid": 1, "tid": tid}


def test_the_truth_of_a_plain_trace(traces):
    events = [row(f"ProfilerStep#{n}", n * 1000, 1000, "user_annotation") for n in range(2)]
    events += [
        row("aten::mm", 1000, 300, "cpu_op"),
        row("gemm", 1100, 400, "kernel", 7),
        row("ncclDevKernel", 1400, 300, "kernel", 8),
        row("cudaStreamSynchronize", 1600, 200, "cuda_runtime"),
    ]
    found = traces.truth(events)
    assert (found["steps"], found["idle"], found["exposed"], found["collective"]) == (2, 0.4, 0.2, 0.3)
    assert (found["blocked"], found["blocked_idle"]) == (0.2, 0.1)
    told = {"steps": 2, "idle": 0.4, "findings": [], "verdict": ""}
    assert traces.judge(found, told)[:2] == ["no DIST002 at 20 %", "no SYNC001 at 10 %"]
