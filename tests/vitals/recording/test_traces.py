"""Profiler traces of GPU jobs, by hand: who waits for whom, and what a report then says."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.cli import main
from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Process
from gpudoctor.vitals.recording import chrome
from gpudoctor.vitals.recording.opening import open_recording

STEP = 20_000.0
Events = list[dict]


def event(name: str, begin: float, length: float, category: str, tid: object = 1, **args: object) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": tid, "ts": begin, "dur": length, "args": args}


def marks(steps: int) -> Events:
    return [event(f"ProfilerStep#{n}", n * STEP, STEP, "user_annotation") for n in range(steps)]


def passes(at: float, kernels: float = 15_000, tid: int = 7) -> Events:
    """Forward, backward and optimizer, launched within 6 ms, and so many microseconds of kernels."""
    return [
        event("aten::linear", at, 2000, "cpu_op"),
        event("cudaLaunchKernel", at + 10, 8, "cuda_runtime"),
        event("autograd::engine::evaluate_function: AddmmBackward0", at + 2000, 2000, "cpu_op", tid=2),
        event("Optimizer.step#SGD.step", at + 4000, 2000, "user_annotation"),
        event("gemm", at + 100, kernels, "kernel", tid=tid),
    ]


def job(steps: int, *parts: object, kernels: float = 15_000) -> Events:
    """Steps of a job; each part makes more events of the moment at which a step begins."""
    events = marks(steps)
    for number in range(steps):
        events += passes(number * STEP, kernels)
        for part in parts:
            events += part(number * STEP, number)  # type: ignore[operator]
    return events


def copy(to: str, at: float, call: float, work: float, name: str = "cudaMemcpyAsync", number: int = 0) -> Events:
    """A copy at a moment: the call of so many microseconds, and the device's work at its end."""
    return [
        event(name, at, call, "cuda_runtime", correlation=number + int(at)),
        event(f"Memcpy {to}", at + call - work, work, "gpu_memcpy", tid=7, correlation=number + int(at)),
    ]


def document(events: Events, **more: object) -> dict:
    return {"schemaVersion": 1, "deviceProperties": [{"name": "NVIDIA L4"}], **more, "traceEvents": events}


def process(tmp_path: Path, events: Events, **more: object) -> Process:
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps(document(events, **more)))
    (only,) = open_recording(str(path)).ranks
    return only


def share(of: Process, column: str) -> float:
    return sum(of.steps.column(column)) / sum(of.steps.column("duration"))


def report(tmp_path: Path, capsys: pytest.CaptureFixture[str], events: Events, **more: object) -> dict:
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps(document(events, **more)))
    assert main(["report", str(path), "--format", "json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def claims(found: dict) -> dict[str, float]:
    return {item["code"]: item["cost"]["step_share"] or 0.0 for item in found["findings"]}


BLOCKING = {
    "a copy to pageable memory": lambda at, _: copy("DtoH (Device -> Pageable)", at + 7000, 10_000, 20),
    "HIP's copy": lambda at, _: copy("DtoH (Device -> Host)", at + 7000, 10_000, 20, "hipMemcpyWithStream"),
    "a stream's end": lambda at, _: [
        *copy("DtoH (Device -> Pinned)", at + 7000, 15, 2),
        event("cudaStreamSynchronize", at + 7020, 9980, "cuda_runtime"),
    ],
    "the driver's": lambda at, _: [event("cuCtxSynchronize", at + 7000, 10_000, "cuda_driver")],
}


@pytest.mark.parametrize("wait", BLOCKING.values(), ids=BLOCKING)
def test_a_host_that_waits_for_the_device_is_no_forward_pass(tmp_path, capsys, wait):
    read = event("aten::_local_scalar_dense", 0, 0, "cpu_op")
    inside = [lambda at, _: [{**read, "ts": at + 6900, "dur": 10_200}], wait]
    busy = process(tmp_path, job(5, *inside))
    assert share(busy, "sync") == pytest.approx(0.5, abs=0.01)
    assert share(busy, "forward") < 0.12
    found = report(tmp_path, capsys, job(5, *inside, kernels=5900))
    assert "PERF011" not in claims(found)
    assert claims(found)["SYNC001"] == pytest.approx(0.5, abs=0.02)
    assert "PERF011" not in claims(found)
    # The same wait behind a busy device gives nothing back, and neither does one beside which it is idle elsewhere.
    late = [item for item in job(5, *inside, kernels=1) if item["cat"] != "kernel"]
    late += [event("gemm", n * STEP + 6500, 11_000, "kernel", tid=7) for n in range(5)]
    found = report(tmp_path, capsys, late)
    assert found["run"]["device_idle"] > 0.4 and "SYNC001" not in claims(found)
    found = report(tmp_path, capsys, job(5, *inside, kernels=19_800))
    assert max(claims(found).values(), default=0.0) < 0.03


def test_copies_that_nobody_waits_for_are_no_wait(tmp_path):
    offload = lambda at, _: [  # noqa: E731
        *copy("DtoH (Device -> Pinned)", at + 500, 12, 2),
        event("Memcpy DtoH (Device -> Pinned)", at + 600, 3000, "gpu_memcpy", tid=9),
    ]
    free = process(tmp_path, job(5, offload))
    assert share(free, "sync") == 0 and sum(free.steps.column("reads")) == 0


@pytest.mark.parametrize(
    "name", ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclKernel_Generic", "rcclGenericKernel"]
)
def test_collectives_count_where_no_kernel_hides_them(tmp_path, capsys, name):
    info = {"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}}
    exposed = lambda at, _: [event(name, at + 8000, 11_000, "kernel", tid=9)]  # noqa: E731
    hidden = lambda at, _: [event(name, at + 1000, 11_000, "kernel", tid=9)]  # noqa: E731
    found = report(tmp_path, capsys, job(5, exposed, kernels=7900), **info)
    assert claims(found)["DIST002"] == pytest.approx(0.55, abs=0.01)
    assert claims(report(tmp_path, capsys, job(5, hidden, kernels=19_900), **info)) == {}
    both = process(tmp_path, job(5, hidden), **info)
    assert share(both, "device_collective") == 0 and share(both, "device_busy") == pytest.approx(0.75, abs=0.01)


def test_copies_to_the_device_count_where_nothing_hides_them(tmp_path, capsys):
    exposed = lambda at, _: [event("Memcpy HtoD (Pinned -> Device)", at + 8000, 9000, "gpu_memcpy", tid=9)]  # noqa: E731
    found = report(tmp_path, capsys, job(5, exposed, kernels=7900))
    assert claims(found)["DATA005"] == pytest.approx(0.45, abs=0.01)
    assert "up to 1.8" in found["summary"]["verdict"]
    most = lambda at, _: [event("Memcpy HtoD (Pinned -> Device)", at + 1000, 18_900, "gpu_memcpy", tid=9)]  # noqa: E731
    assert claims(report(tmp_path, capsys, job(5, most, kernels=800)))["DATA005"] == pytest.approx(0.47, abs=0.01)
    hidden = lambda at, _: [event("Memcpy HtoD (Pinned -> Device)", at + 200, 9000, "gpu_memcpy", tid=9)]  # noqa: E731
    assert share(process(tmp_path, job(5, hidden)), "device_transfer") == 0


def test_a_trace_without_steps_is_one_step_and_says_so(tmp_path, capsys):
    events = [item for item in job(3, kernels=500) if not item["name"].startswith(("ProfilerStep", "Optimizer"))]
    found = report(tmp_path, capsys, events)
    assert found["run"]["steps"] == 1 and found["run"]["marker"] == "trace"
    assert found["summary"]["verdict"].startswith("The trace marks no step")
    with pytest.raises(UsageError, match="no training step"):
        process(tmp_path, [event("PyTorch Profiler (0)", 0, 100, "Trace")])


def test_a_long_first_call_is_set_up_and_a_full_queue_is_not(tmp_path, capsys):
    loads = lambda at, _: [event("hipLaunchKernel", at + 100, 1700, "cuda_runtime")]  # noqa: E731
    idle = [
        lambda at, _: [event("aten::conv2d", at + 6000, 13_000, "cpu_op")],
        lambda at, _: [event("cudaMalloc", at + 6100, 12_500, "cuda_runtime")],
    ]
    found = report(tmp_path, capsys, job(3, loads, *idle, kernels=500))
    assert claims(found).get("PERF011", 0.0) < 0.3
    full = process(tmp_path, job(3, loads, kernels=19_800))
    assert share(full, "forward") == pytest.approx(0.1, abs=0.01)


def test_waits_are_of_the_users_function_around_them(tmp_path):
    frames = lambda at, _: [  # noqa: E731
        event("train.py(10): main", at, 19_000, "python_function"),
        event("metrics.py(31): accuracy", at + 6500, 11_000, "python_function"),
        event("torch/_tensor.py(40): item", at + 6800, 10_500, "python_function"),
    ]
    found = process(tmp_path, job(5, frames, BLOCKING["a copy to pageable memory"]))
    (site,) = found.of("site")
    assert (site.get("path"), site.get("line"), site.get("calls"), site.get("steps")) == ("metrics.py", 31, 5, 5)


def test_no_finding_claims_more_than_the_device_is_idle(tmp_path, capsys):
    dice = random.Random(18)
    for _ in range(8):
        wait, late, load = dice.uniform(60, 12_000), dice.uniform(0, 9000), dice.uniform(0, 6000)
        parts = [
            lambda at, _, wait=wait: copy("DtoH (Device -> Pageable)", at + 6000, wait, wait / 3),
            lambda at, _, late=late: [event("ncclDevKernel", at + late, 9000, "kernel", tid=9)],
            lambda at, _, load=load: [event("enumerate(DataLoader)#next", at + 13_000, load, "user_annotation")],
        ]
        chosen = dice.sample(parts, dice.randint(0, 3))
        events = job(dice.randint(1, 6), *chosen, kernels=dice.uniform(10, 19_000))
        dice.shuffle(events)
        found = report(tmp_path, capsys, events)
        idle = found["run"]["device_idle"]
        for code, claimed in claims(found).items():
            if code not in ("DIST002", "DATA005"):
                assert claimed <= idle + 1e-6, (code, claimed, idle)


@pytest.mark.parametrize(
    "text", ['{"traceEvents": [{"a": 1}', '{"traceEvents": {}}', '{"traceEvents": [{"a" 1}]}', "[1, 2"]
)
def test_a_document_that_is_cut_or_wrong_is_refused(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(UsageError):
        chrome.read_events(str(tmp_path / "t.json"), lambda _: None)


@pytest.mark.slow
def test_a_large_trace_is_read_in_little_memory(tmp_path):
    path, many = tmp_path / "big.json", 25_000
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        for number in range(many):
            begin = number * 4.0
            row = event("aten::add", begin, 3.9, "cpu_op", shapes="[[1024, 1024], [1024]]" * 36)
            file.write(json.dumps(row) + ",\n")
        file.write(json.dumps(event("ProfilerStep#1", 0, many * 4.0, "user_annotation")) + "]}")
    code = (
        "import resource, sys\nfrom gpudoctor.vitals.recording.opening import open_recording\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "(rank,) = open_recording(sys.argv[1]).ranks\nassert len(rank.steps) == 1\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert path.stat().st_size > 20 << 20
    assert int(done.stdout) * 1024 < 20 << 20
