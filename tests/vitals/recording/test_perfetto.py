"""Perfetto traces, written by Perfetto's own classes: what is read from them is what the same events in JSON give."""

import gzip
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.cli import main
from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Process
from gpudoctor.vitals.recording import open_recording, perfetto

perfetto_trace = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
Trace, Packet, Slice = perfetto_trace.Trace, perfetto_trace.TracePacket, perfetto_trace.TrackEvent
STEP = 20_000
STAGES = {"kernel": (1, "Kernel"), "gpu_memcpy": (2, "Memcpy"), "gpu_memset": (3, "Memset")}
Event = dict


def event(name: str, begin: float, length: float, category: str, tid: int = 1, **args: object) -> Event:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": begin, "dur": length, "args": args,
    }  # fmt: skip


def job(steps: int = 5, read: bool = False) -> list[Event]:
    """Steps with 12 ms of kernels; `read`: the host waits for all of them, and launches late."""
    events = []
    for number in range(steps):
        at = number * STEP
        begin = 8000 if read else 500
        events += [
            event(f"ProfilerStep#{number}", at, STEP, "user_annotation"),
            event("aten::linear", at + 100, 2000, "cpu_op"),
            event("aten::addmm", at + 200, 1500, "cpu_op"),
            event("cudaLaunchKernel", at + 300, 8, "cuda_runtime", correlation=number * 10 + 1),
            event("autograd::engine::evaluate_function: AddmmBackward0", at + 2500, 2000, "cpu_op", tid=2),
            event("Optimizer.step#SGD.step", at + 5000, 1000, "user_annotation"),
            event("gemm", at + begin, 11_500, "kernel", correlation=number * 10 + 1),
            event("ncclDevKernel_AllReduce", at + begin + 11_500, 500, "kernel"),
        ]
        if read:
            events += [
                event("cudaStreamSynchronize", at + 6200, 13_500, "cuda_runtime", correlation=number * 10 + 2)
            ]
    return events


def packets(events: list[Event], interned: bool = True, begins_first: bool = True) -> Iterator[object]:
    """As torch writes them: the host's slices by thread, the device's work as render stages."""
    names = sorted({item["name"] for item in events})
    categories = sorted({item["cat"] for item in events})
    yield Packet(track_descriptor={"uuid": 1, "process": {"pid": 7, "process_name": "python"}})
    for tid in (1, 2):
        yield Packet(track_descriptor={"uuid": 1 + tid, "parent_uuid": 1, "thread": {"pid": 7, "tid": tid}})
    head = Packet(trusted_packet_sequence_id=1, sequence_flags=1)
    data = head.interned_data
    for table, values in ((data.event_names, names), (data.event_categories, categories)):
        for number, name in enumerate(values, 1):
            table.add(iid=number, name=name)
    for number, name in STAGES.values():
        data.gpu_specifications.add(iid=number, name=name)
    yield head
    host = [item for item in events if item["cat"] not in STAGES]
    begins, ends = [], []
    for item in host:
        one = Slice(type=1, track_uuid=1 + item["tid"])
        if interned:
            one.name_iid = names.index(item["name"]) + 1
            one.category_iids.append(categories.index(item["cat"]) + 1)
        else:
            one.name, one.categories[:] = item["name"], [item["cat"]]
        for key, value in item["args"].items():
            one.debug_annotations.add(name=key, int_value=value)
        begins.append((nanoseconds(item["ts"]), one))
        ends.append((nanoseconds(item["ts"] + item["dur"]), Slice(type=2, track_uuid=1 + item["tid"])))
    # In the order of time an inner slice ends first, and what begins where another ends comes after it.
    edges = [*begins, *ends] if begins_first else sorted([*ends, *begins], key=lambda edge: edge[0])
    for at, one in edges:
        yield Packet(timestamp=at, trusted_packet_sequence_id=1, sequence_flags=2, track_event=one)
    for item in events:
        if item["cat"] in STAGES:
            stage = Packet(
                timestamp=nanoseconds(item["ts"]), trusted_packet_sequence_id=1
            ).gpu_render_stage_event
            packet = Packet(timestamp=nanoseconds(item["ts"]), trusted_packet_sequence_id=1)
            stage = packet.gpu_render_stage_event
            stage.duration, stage.gpu_id, stage.hw_queue_iid = int(item["dur"] * 1000), 0, 100
            stage.stage_iid = STAGES[item["cat"]][0]
            if item["cat"] == "kernel":
                stage.name_iid = names.index(item["name"]) + 1
            for key, value in item["args"].items():
                stage.extra_data.add(name=key, value=str(value))
            yield packet


def nanoseconds(microseconds: float) -> int:
    return 1_780_000_000_000_000_000 + round(microseconds * 1000)


def written(path: Path, made: Iterator[object]) -> str:
    path.write_bytes(Trace(packet=list(made)).SerializeToString())
    return str(path)


def process(path: str) -> Process:
    (only,) = open_recording(path).ranks
    return only


def columns(of: Process) -> dict[str, list[float]]:
    return {name: [float(value) for value in of.steps.column(name)] for name in of.steps.columns}


@pytest.mark.parametrize("interned", [True, False])
@pytest.mark.parametrize("begins_first", [True, False])
@pytest.mark.parametrize("read", [True, False])
def test_a_trace_says_what_the_same_events_in_json_say(tmp_path, interned, begins_first, read):
    events = job(read=read)
    plain = tmp_path / "t.json"
    plain.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    expected, told = (
        process(str(plain)),
        process(written(tmp_path / "t.pftrace", packets(events, interned, begins_first))),
    )
    assert columns(told).keys() == columns(expected).keys() >= {"device_busy", "forward", "sync"}
    for name, values in columns(expected).items():
        assert columns(told)[name] == pytest.approx(values, abs=1e-6), name
    assert sum(columns(told)["sync"]) > 0 if read else sum(columns(told)["sync"]) == 0


def test_a_report_of_a_packed_trace_names_the_wait(tmp_path, capsys):
    path = tmp_path / "t.pftrace.gz"
    path.write_bytes(gzip.compress(Trace(packet=list(packets(job(40, read=True)))).SerializeToString()))
    assert main(["report", str(path), "--format", "json"]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert "SYNC001" in {item["code"] for item in found["findings"]}
    assert main(["report", written(tmp_path / "healthy.pftrace", packets(job(40))), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "SYNC001" not in {item["code"] for item in found["findings"]}


def test_a_copy_without_a_direction_is_said_to_be_one(tmp_path):
    events = [*job(), event("Memcpy HtoD (Pageable -> Device)", 19_000, 500, "gpu_memcpy", correlation=3)]
    (said,) = (
        text
        for text in open_recording(written(tmp_path / "t.pftrace", packets(events))).problems
        if "direction" in text
    )
    assert "copies have no direction" in said
    problems = open_recording(written(tmp_path / "u.pftrace", packets(job()))).problems
    assert not any("direction" in text for text in problems)


def test_slices_without_end_or_category_are_said(tmp_path):
    made = [
        *packets(job()),
        Packet(timestamp=nanoseconds(99_000), track_event=Slice(type=1, track_uuid=2, name="x")),
    ]
    problems = " ".join(open_recording(written(tmp_path / "t.pftrace", iter(made))).problems)
    assert "1 slice without an end" in problems and "1 slice without a category" in problems


def test_clocks_that_count_from_packet_to_packet(tmp_path):
    """As Perfetto's own library writes: times are differences, in microseconds, from what a snapshot says."""
    events = [item for item in job() if item["cat"] not in STAGES and item["tid"] == 1]
    rest = list(packets(events, interned=False, begins_first=False))[4:]
    tracks = list(packets(events))[:3]
    snapshot = Packet(trusted_packet_sequence_id=1, sequence_flags=1)
    snapshot.clock_snapshot.clocks.add(clock_id=64, timestamp=5, is_incremental=True, unit_multiplier_ns=1000)
    snapshot.clock_snapshot.clocks.add(clock_id=6, timestamp=nanoseconds(0))
    snapshot.trace_packet_defaults.timestamp_clock_id = 64
    at = nanoseconds(0)
    for item in rest:
        item.timestamp, at = (item.timestamp - at) // 1000, item.timestamp
    told = process(written(tmp_path / "t.pftrace", iter([*tracks, snapshot, *rest])))
    expected = process(written(tmp_path / "u.pftrace", packets(events)))
    assert columns(told) == columns(expected)


def test_compressed_packets(tmp_path):
    inner = Trace(packet=list(packets(job()))).SerializeToString()
    bomb = zlib.compress(bytes(64 << 20))
    path = tmp_path / "t.pftrace"
    path.write_bytes(Trace(packet=[Packet(compressed_packets=zlib.compress(inner))]).SerializeToString())
    assert columns(process(str(path))) == columns(process(written(tmp_path / "u.pftrace", packets(job()))))
    path.write_bytes(Trace(packet=[Packet(compressed_packets=bomb)]).SerializeToString())
    with pytest.raises(UsageError, match="unpack to too much"):
        open_recording(str(path))


def test_a_trace_that_is_cut_or_wrong_anywhere_is_refused_or_read(tmp_path):
    whole = Trace(packet=list(packets(job(2)))).SerializeToString()
    path, rng = tmp_path / "t.pftrace", random.Random(5)
    outcomes = set()
    for number in range(300):
        data = bytearray(whole)
        if number % 2:
            del data[rng.randrange(len(data)) :]
        else:
            for _ in range(3):
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            perfetto.read_events(str(path), lambda _: None)
            outcomes.add("read")
        except UsageError as error:
            assert "not a whole Perfetto trace" in str(error)
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_a_time_that_no_clock_shows_is_refused(tmp_path):
    made = [*packets(job()), Packet(timestamp=(1 << 64) - 1, track_event=Slice(type=1, track_uuid=2))]
    with pytest.raises(UsageError, match="far from the first one"):
        open_recording(written(tmp_path / "t.pftrace", iter(made)))


@pytest.mark.parametrize(
    "data",
    [b"\n\nTraceback (most recent call last):\n", b"\n" * 90, b"\x0a\x05hello", b"", b"\x0a", b"\x0a\x00"],
)
def test_other_files_are_no_perfetto_trace(tmp_path, data):
    path = tmp_path / "job.out"
    path.write_bytes(data)
    assert not perfetto.is_perfetto(path)
