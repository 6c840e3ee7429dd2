"""Other tools' logs as recordings: traces of the PyTorch profiler."""

import gzip
import json
from pathlib import Path

import pytest

from gpudoctor.analysis.run.steady_state import steady
from gpudoctor.errors import UsageError
from gpudoctor.vitals.recording.opening import open_recording


def event(name: str, begin: float, length: float, category: str = "cpu_op", tid: int = 1, **more: object) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": begin, "dur": length, **more}


def gpu_trace(steps: int = 12, rank: int | None = None) -> dict:
    """A loop on a GPU by hand: 10 ms a step, of which the loader takes 4, and the GPU is busy for 3."""
    events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}]
    for step in range(steps):
        t = 1e9 + step * 10_000
        events += [
            event(f"ProfilerStep#{step}", t, 10_000, "user_annotation"),
            event("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", t, 4000, "user_annotation"),
            event("aten::to", t + 100, 300),  # inside the loader's time: not forward
            event("aten::linear", t + 4000, 2000),
            event("aten::addmm", t + 4200, 500),
            event("autograd::engine::evaluate_function: AddmmBackward0", t + 6000, 1000, tid=2),
            event("autograd::engine::evaluate_function: TBackward0", t + 7100, 900, tid=2),
            event("Optimizer.step#AdamW.step", t + 8000, 1000, "user_annotation"),
            event("cudaStreamSynchronize", t + 9000, 500, "cuda_runtime"),
            event("aten::_local_scalar_dense", t + 9000, 500),
            event("gemm", t + 5000, 2000, "kernel", tid=7),
            event("gemm", t + 6000, 1500, "kernel", tid=8),
            event("Memcpy HtoD (Pageable -> Device)", t + 4000, 500, "gpu_memcpy", tid=7),
        ]
    events.append(event(f"ProfilerStep#{steps}", 1e9 + steps * 10_000, 120, "user_annotation"))
    document: dict = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}],
        "host_name": "node-1",
        "traceEvents": events,
    }
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    return document


def write(path: Path, document: object) -> str:
    text = json.dumps(document).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def test_phases_of_a_trace_are_exclusive_and_those_of_the_device_unite(tmp_path):
    recording = open_recording(write(tmp_path / "trace.json", gpu_trace()))
    (process,) = recording.ranks
    table = process.steps
    assert recording.origin == "kineto"
    assert len(table) == 12  # the last ProfilerStep holds the end of the loop only
    expected = {"duration": 0.01, "data_wait": 0.004, "forward": 0.002, "backward": 0.002, "optimizer": 0.001,
                "sync": 0.0005, "device_busy": 0.003, "device_transfer": 0.0005}  # fmt: skip
    for name, seconds in expected.items():
        assert list(table.column(name)) == pytest.approx([seconds] * 12, rel=1e-5), name
    for name, count in {"reads": 1, "syncs": 1, "batches": 1, "backwards": 1}.items():
        assert list(table.column(name)) == [count] * 12, name
    assert steady(process).share("other") == pytest.approx(0.05, abs=1e-4)
    torch = process.first("torch")
    assert torch is not None and torch.get("device") == "NVIDIA H100 80GB HBM3"


def test_own_time_of_the_users_functions(tmp_path):
    trace = gpu_trace(steps=2)
    t = 1e9
    trace["traceEvents"] += [
        event("train.py(10): main", t - 5000, 100_000, "python_function"),
        event("data.py(31): __getitem__", t, 4000, "python_function"),
        event("torch/nn/modules/module.py(1782): _call_impl", t + 4000, 2000, "python_function"),
        event("typing.py(359): inner", t + 4100, 10, "python_function"),
        event("model.py(7): forward", t + 4200, 1500, "python_function"),
        event("<built-in method x of y object at 0x1>", t, 9, "python_function"),
    ]
    (process,) = open_recording(write(tmp_path / "t.json", trace)).ranks
    record = process.first("lines")
    assert record is not None
    counts: dict[tuple, int] = {}
    for phase, *key, samples in record.get("counts"):
        counts[tuple(key)] = counts.get(tuple(key), 0) + samples
        assert phase == "data_wait" or key[0] != "data.py"
    assert counts == {
        ("train.py", 10, "main"): 145, ("data.py", 31, "__getitem__"): 40, ("model.py", 7, "forward"): 15,
    }  # fmt: skip
    assert record.get("samples") == 200


def test_what_is_no_trace_of_steps_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="no training step"):
        open_recording(write(tmp_path / "no-steps.json", {"schemaVersion": 1, "traceEvents": []}))
    (tmp_path / "cut.json").write_text(json.dumps(gpu_trace())[:-40])
    with pytest.raises(UsageError, match="not whole JSON"):
        open_recording(str(tmp_path / "cut.json"))
    (tmp_path / "other.json").write_text('{"model": 1}')
    with pytest.raises(UsageError):
        open_recording(str(tmp_path / "other.json"))
    (tmp_path / "dmesg.log").write_text("[  1.0] NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n")
    with pytest.raises(UsageError, match="different kinds"):
        open_recording(write(tmp_path / "t.json", gpu_trace()), str(tmp_path / "dmesg.log"))
