"""Recordings are read whole, cut, damaged, joined; what is no recording is told so."""

import math
import random

import pytest
from recordings import (
    MAGIC,
    json_frame,
    make_machine,
    make_process,
    make_recording,
    make_steps,
    make_worker,
    process_bytes,
    record,
    site,
    write_recording,
)
from some import some

from gpudoctor.analysis.run.deaths import first_failed
from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.vitals.recording.reader import read_recording


def plain(table):
    """A table with NaN made comparable."""
    return {name: ["nan" if math.isnan(v) else v for v in values] for name, values in table.columns.items()}


def rank_file(folder, rank="*"):
    [path] = folder.glob(f"rank-{rank}-*.gdr")
    return path


def test_what_was_written_is_read(tmp_path):
    worker = make_worker(9000, rank=1, records=[record("items", items=640)])
    ranks = [make_process(make_steps(150, seed=rank), rank=rank, world=2, records=[site("logging", "print", 1.0, 9)])
             for rank in (0, 1)]  # fmt: skip
    recording = make_recording(
        *ranks,
        workers=(worker,),
        machine=make_machine(30, cpu=2.5, gpu0_util=lambda i: i / 30),
        environment={"WORLD_SIZE": "2"},
        end=RunEnd(exit_code=1, signal=None, seconds=12.5, oom_kills=1, kernel=("oom-kill: python",)),
    )
    folder = write_recording(recording, tmp_path / "run")
    read = read_recording(str(folder))
    assert read.problems == ()
    assert (read.path, read.command, read.cwd, read.started) == (
        str(folder), recording.command, recording.cwd, recording.started,
    )  # fmt: skip
    assert (read.environment, read.end, read.machine_facts) == (
        recording.environment, recording.end, recording.machine_facts,
    )  # fmt: skip
    assert plain(read.machine) == plain(recording.machine)
    for ours, theirs in zip(read.ranks, recording.ranks, strict=True):
        assert ours.records == theirs.records
        assert plain(ours.steps) == plain(theirs.steps)
        assert (ours.rank, ours.node, ours.pid, ours.wall, ours.clean) == (
            theirs.rank, theirs.node, theirs.pid, theirs.wall, True,
        )  # fmt: skip
    [read_worker] = read.workers
    assert (read_worker.rank, read_worker.pid) == (1, 9000)
    assert read_worker.of("items")[0].get("items") == 640


def test_a_file_cut_at_any_byte_keeps_what_came_before(tmp_path):
    process = make_process(make_steps(40))
    whole, whole_table = process_bytes(process, block=8), plain(process.steps)
    folder = write_recording(make_recording(process), tmp_path / "run")
    path = rank_file(folder)
    dice = random.Random(7)
    ends = sorted(dice.sample(range(len(whole)), 120)) + list(range(12))
    kept = []
    for end in some(sorted(ends)):
        path.write_bytes(whole[:end])
        [rank] = read_recording(str(folder)).ranks
        assert len(rank.steps) % 8 == 0
        rows = len(rank.steps)
        assert not rows or plain(rank.steps) == {name: values[:rows] for name, values in whole_table.items()}
        assert rank.records == process.records[: len(rank.records)]
        kept.append(len(rank.steps) + len(rank.records))
    assert kept == sorted(kept) and kept[-1] > kept[0]


def test_a_killed_recorder_leaves_a_recording(tmp_path):
    folder = write_recording(make_recording(), tmp_path / "run")
    (folder / "end.json").unlink()
    assert read_recording(str(folder)).end is None
    (folder / "recording.json").write_text('{"schema": "gpudoc')
    read = read_recording(str(folder))
    assert len(read.ranks[0].steps) == 200
    assert "recording.json is not whole JSON" in read.problems[0]
    (folder / "recording.json").unlink()
    assert len(read_recording(str(folder)).ranks[0].steps) == 200


def test_nodes_are_joined(tmp_path):
    folders = []
    for node in (0, 1):
        ranks = [make_process(rank=2 * node + i, world=4, node=f"node-{node}") for i in (0, 1)]
        end = RunEnd(exit_code=node, seconds=5.0, oom_kills=node)
        recording = make_recording(*ranks, node=f"node-{node}", end=end)
        folders.append(str(write_recording(recording, tmp_path / f"node-{node}")))
    read = read_recording(folders[1], folders[0], folders[1])
    assert [(rank.rank, rank.node) for rank in read.ranks] == [
        (0, "node-0"), (1, "node-0"), (2, "node-1"), (3, "node-1"),
    ]  # fmt: skip
    assert read.node == "node-0"
    assert read.end == RunEnd(exit_code=1, seconds=5.0, oom_kills=1)


def test_a_launcher_alone_is_no_rank(tmp_path):
    folder = write_recording(make_recording(make_process(make_steps(20))), tmp_path / "run")
    for file in folder.glob("rank-*"):
        file.unlink()
    start = record("start", 0.0, format=1, rank=None, pid=77, node="node-1", wall=1.8e9)
    died = record("exception", 1.0, exception="a.b.ChildFailedError", frames=[], message="Root Cause:\n"
                  "  rank      : 1 (local_rank: 1)\n  exitcode  : 2 (pid: 78)\n")  # fmt: skip
    (folder / "rank-x-77.gdr").write_bytes(MAGIC + json_frame(start) + json_frame(died))
    read = read_recording(str(folder))
    assert (read.ranks, [process.pid for process in read.launchers]) == ((), [77])
    assert first_failed(read) == "rank 1 failed first, with exit code 2"
    assert any("no rank reported" in problem for problem in read.problems)
    own = record("exception", 1.0, exception="RuntimeError", message="port in use", frames=[])
    (folder / "rank-x-77.gdr").write_bytes(MAGIC + json_frame(start) + json_frame(own))
    assert len(read_recording(str(folder)).ranks) == 1  # its own failure is the run's


FAULT = """Fatal Python error: Segmentation fault

Current thread 0x00007f3c (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/job/train.py", line 41 in train
  File "/job/train.py", line 60 in <module>

Extension modules: numpy, torch._C (total: 2)
"""


def test_the_stack_of_a_fatal_signal(tmp_path):
    recording = make_recording(make_process(make_steps(30), clean=False), end=RunEnd(exit_code=139))
    folder = write_recording(recording, tmp_path / "run")
    (folder / "fault-x-4712.txt").write_text(FAULT)
    (folder / "fault-x-99.txt").write_text(FAULT)  # of nobody that is here
    [rank] = read_recording(str(folder)).ranks
    fault = rank.last("signal")
    assert fault.get("signal") == "SIGSEGV"
    assert fault.get("stack") == [
        ["/job/train.py", 60, "<module>"], ["/job/train.py", 41, "train"],
        ["/usr/lib/python3.11/ctypes/__init__.py", 519, "string_at"],
    ]  # fmt: skip
    (folder / "fault-x-4712.txt").write_text(FAULT.replace("Current thread 0x00007f3c", "Stack"))  # one thread alone
    assert read_recording(str(folder)).ranks[0].last("signal").get("stack") == fault.get("stack")
    (folder / "fault-x-4712.txt").write_text(FAULT.partition("\n\n")[2])  # SIGTERM has no such heading
    assert read_recording(str(folder)).ranks[0].last("signal").get("signal") == ""
    # One thread only, as the probe asks for it; and the C stack that Python 3.14 adds below.
    alone = FAULT.replace("Current thread 0x00007f3c", "Stack")
    alone += '\nCurrent thread\'s C stack trace (most recent call first):\n  Binary file "python", at _Py_Dump+0x4\n'
    (folder / "fault-x-4712.txt").write_text(alone)
    fault = read_recording(str(folder)).ranks[0].last("signal")
    assert (fault.get("signal"), fault.get("stack")[1]) == ("SIGSEGV", ["/job/train.py", 41, "train"])
    (folder / "fault-x-4712.txt").write_text("")
    assert read_recording(str(folder)).ranks[0].last("signal") is None


def test_what_is_no_recording_is_told(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    for path, words in [
        (empty, "no recording in it"),
        (text, "not a recording, which is a folder"),
        (tmp_path / "missing", "no such recording"),
    ]:
        with pytest.raises(UsageError, match=words):
            read_recording(str(path))
