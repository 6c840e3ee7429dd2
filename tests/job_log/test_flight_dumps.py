"""Dumps are read whatever their names and versions; what is damaged or hostile is named, and nothing of it is run."""

import gzip
import os
import pickle
import sys

import pytest
from flight_dumps import make_ranks, read_here, write

from gpudoctor.vitals.build_log_patient import sort_left_behind
from gpudoctor.vitals.file_kinds import FileKind
from gpudoctor.vitals.flight_recorder import read_dumps as reader
from gpudoctor.vitals.flight_recorder.read_dumps import read_flight_records


class Called:
    """Its pickle would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def dump():
    [rank] = make_ranks(1)
    return rank.calls(50).dump()


def nested(depth):
    """A tuple of tuples, as key of a dict: hashing it goes as deep as it nests."""
    return b"\x80\x02}(N" + b"\x85" * depth + b"Nu."


def reason(path):
    [unread] = read_here([str(path)]).unread
    return unread.reason


def test_a_rank_is_read_with_its_groups_and_what_is_open(tmp_path):
    ranks = make_ranks(2)
    for rank in ranks:
        rank.calls(50).call("broadcast", sizes=[[3, 2]], dtype="Half", line=7, state="started")
    records = read_flight_records(write(tmp_path, ranks))
    assert [item.rank for item in records.ranks] == [0, 1] and not records.unread
    [group] = records.ranks[1].groups
    assert (group.description, group.members, group.newest.number) == ("default_pg", (0, 1), 51)
    call = group.open
    assert (call.number, call.state, call.timeout, call.timed_out) == (51, "started", 600.0, False)
    assert (call.operation, call.payload) == ("broadcast", "6 elements of Half")
    assert (call.path, call.line, call.function) == ("/job/train.py", 7, "train_step")


def test_a_name_needs_no_pattern_and_the_content_counts_before_it(tmp_path):
    for name, rank in (
        ("nccl_trace_rank_12", 12), ("worker-3.pkl", 3), ("dump7", 7), ("host.rank4.2026", 4), ("x_5.pickle.gz", 5),
    ):  # fmt: skip
        data = pickle.dumps(dump(), 2)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        assert [item.rank for item in read_here([str(tmp_path / name)]).ranks] == [rank]
    (tmp_path / "dump9").write_bytes(pickle.dumps({**dump(), "rank": 6}, 2))
    assert read_here([str(tmp_path / "dump9")]).ranks[0].rank == 6
    (tmp_path / "dump").write_bytes(pickle.dumps(dump(), 2))
    assert reason(tmp_path / "dump") == "neither it nor its name contains its rank"


def test_of_two_dumps_of_a_rank_the_later_counts(tmp_path):
    old, new = tmp_path / "a_rank_1", tmp_path / "b_rank_1"
    for path, time in ((old, 1000), (new, 2000)):
        path.write_bytes(pickle.dumps(dump(), 2))
        os.utime(path, (time, time))
    records = read_here([str(new), str(old)])
    assert [item.path for item in records.ranks] == [str(new)]
    assert records.unread[0].path == str(old)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (pickle.dumps(dump(), 2)[:87], "it is damaged or cut short"),
        (pickle.dumps(dump(), 2)[:-20], "it is damaged or cut short"),
        (b"\x80\x02" + b"\xff" * 500, "it is damaged or cut short"),
        (b"[" * 100_000, "it is damaged or cut short"),
        (pickle.dumps({"segments": []}, 2), "it is not a flight-recorder dump (`entries` is missing)"),
        (pickle.dumps({"entries": [1, 2]}, 2), "its entries are not those of a flight recorder"),
        (pickle.dumps({"entries": [{"profiling_name": 3}]}, 2), "its entries are not those of a flight recorder"),
    ],
)
def test_damaged_dumps_are_named(tmp_path, data, said):
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    assert reason(path) == said


@pytest.mark.parametrize("changed", [
    {"collective_seq_id": 2**70}, {"collective_seq_id": -4}, {"collective_seq_id": 10**9}, {"frames": 7},
    {"frames": [[[]]]}, {"input_sizes": [["a"]]}, {"input_sizes": 5}, {"input_dtypes": [{}]},
    {"process_group": 5}, {"process_group": ("a",)}, {"profiling_name": None}, {"timeout_ms": "x"},
    {"time_created_ns": []}, {"state": {}}, {"retired": "?"}, {"is_p2p": True, "p2p_seq_id": []},
])  # fmt: skip
def test_values_that_make_no_sense_are_refused_or_left_out(tmp_path, changed):
    value = dump()
    value["entries"][20].update(changed)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(value, 2))
    records = read_here([str(path)])
    assert len(records.ranks) + len(records.unread) == 1
    assert all("crashed" not in item.reason for item in records.unread)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_refused_and_not_run(tmp_path, protocol):
    path, made = tmp_path / "nccl_trace_rank_0", tmp_path / "made"
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": [Called(str(made))]}, protocol))
    assert reason(path) == (
        "it names a class or a function, which loading would run; gpudoctor reads plain values only"
    )
    assert not made.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # a memo of 2^31 places
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"x.",  # a terabyte of bytes
        nested(3_000_000),
    ],
    ids=["memo", "bytes", "nested"],
)
def test_a_dump_that_takes_memory_or_crashes_its_reader_costs_itself_alone(tmp_path, data):
    paths = write(tmp_path, [rank.calls(3) for rank in make_ranks(3)])
    (tmp_path / "nccl_trace_rank_1").write_bytes(data)
    records = read_flight_records(paths)
    assert [item.rank for item in records.ranks] == [0, 2]
    [unread] = records.unread
    assert unread.rank == 1 and unread.reason


def test_a_dump_whose_reading_does_not_end_costs_itself_alone(tmp_path, monkeypatch):
    """A key whose hash takes 2^60 steps."""
    monkeypatch.setattr(reader, "_SECONDS", 3.0)
    paths = write(tmp_path, [rank.calls(3) for rank in make_ranks(3)])
    slow = b"\x80\x02}(N" + b"q\x00h\x00\x86" * 60 + b"Nu."
    (tmp_path / "nccl_trace_rank_1").write_bytes(slow)
    records = read_flight_records(paths)
    assert [item.rank for item in records.ranks] == [0, 2]
    assert records.unread[0].reason == "reading it takes too long"


def test_a_folder_gives_its_dumps_and_those_that_are_cut(tmp_path):
    ranks = [rank.calls(3) for rank in make_ranks(4)]
    paths = write(tmp_path, ranks, name="nccl_trace_rank_")
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"")
    (tmp_path / "nccl_trace_rank_3").write_bytes(pickle.dumps(ranks[3].dump(), 2)[:87])
    (tmp_path / "notes").write_text("a text of somebody's")
    found = sort_left_behind([str(tmp_path)])
    assert sorted(found.files[FileKind.FLIGHT]) == paths and not found.of(FileKind.LOG)
    (tmp_path / "job.out").write_text("step 1 loss 2.0\n")
    assert sort_left_behind([str(tmp_path)]).of(FileKind.LOG) == (str(tmp_path / "job.out"),)
