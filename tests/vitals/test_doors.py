"""Doors: what is read of files from outside is bounded, regular, and judged where it enters."""

import gzip
import json
import math
import os
import time
from array import array
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import MAGIC, frame, make_process, make_recording, make_steps, write_recording

from gpudoctor.cli import main
from gpudoctor.errors import DoctorError, UsageError
from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import Damaged, RefusedFile, load_json, open_unpacked, read_file, unpacked_most
from gpudoctor.model.read_limits import ReadLimit
from gpudoctor.model.signs.recording import Table
from gpudoctor.vitals.job import read_job
from gpudoctor.vitals.recording.chrome import read_events
from gpudoctor.vitals.recording.fields import judged
from gpudoctor.vitals.recording.gdr_file import read_frames
from gpudoctor.vitals.recording.plausibility import sound
from gpudoctor.vitals.recording.reader import read_recording
from gpudoctor.vitals.source import read_source

FEW = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SMALL = ReadLimit(100, "a test")
MEETS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
"""Whatever JSON can hold."""


# -- files


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder", "loop", "absent", "nul", "long"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = Path({"nul": "a\0b", "long": "a" * 300}.get(kind, "odd"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    start = time.monotonic()
    with pytest.raises(OSError):
        read_file(path, SMALL)
    assert time.monotonic() - start < 1.0


def test_a_file_beyond_its_budget_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(10 << 30)
    start = time.monotonic()
    with pytest.raises(RefusedFile, match="larger than 100 bytes, the most that a test may have"):
        read_file(path, SMALL)
    assert time.monotonic() - start < 1.0
    path.write_bytes(b"x" * 100)
    assert len(read_file(path, SMALL)) == 100


def test_a_packed_file_is_unpacked_to_fifty_times_its_size(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (100 << 20)))
    assert unpacked_most(path.stat().st_size, ReadLimit(1 << 30, "a test")) < 80 << 20
    with pytest.raises(UsageError, match="unpacks to more than 50 times its size"):
        read_events(str(path), lambda event: None)
    path.write_bytes(gzip.compress(b"hello")[:-3])
    with pytest.raises(Damaged), open_unpacked(path) as stream:
        stream.read()
    path.write_bytes(gzip.compress(b"hello"))
    with open_unpacked(path) as stream:
        assert stream.read() == b"hello"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 300 + "]" * 300, '{"a":' * 200 + "1" + "}" * 200, "9" * 5000, ""]
)
def test_json_that_is_too_much_is_a_value_error(text):
    with pytest.raises(ValueError):
        load_json(text)


def test_a_pipe_as_baseline_and_in_a_folder_does_not_block(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    for name in ("b.json", "c.yaml", "d.py", "gpudoctor.toml"):
        os.mkfifo(tmp_path / name)
    start = time.monotonic()
    assert main(["check", "train.py", "--baseline", "b.json"]) == 2
    assert "it is a pipe, no regular file" in capsys.readouterr().err
    assert main(["check", ".", "--fail-on", "never"]) == 3
    assert "d.py: it cannot be read: it is a pipe" in capsys.readouterr().out
    assert time.monotonic() - start < 20


# -- recordings


def test_a_wrong_value_is_taken_out_and_named(tmp_path):
    steps = make_steps(30)
    steps.columns["duration"][3] = -1.0
    steps.columns["rss"][5] = math.inf
    steps.columns["loss"][6] = math.inf
    steps.columns["t"][20] = 0.0
    steps.columns["index"][25] = 24
    folder = write_recording(make_recording(make_process(steps)), tmp_path / "run")
    path = next(folder.glob("rank-*.gdr"))
    odd = {"type": "site", "t": 1.0, "calls": "many", "seconds": -1, "path": "/a.py", "line": [], "new": {"a": 1}}
    path.write_bytes(path.read_bytes() + frame(b"J", json.dumps(odd).encode()))
    recording = read_recording(str(folder))
    [process] = recording.ranks
    assert len(process.steps) == 28
    assert sum(map(math.isnan, process.steps.column("duration"))) == 1
    assert process.steps.column("loss")[6] == math.inf
    site = process.last("site")
    assert site.fields == {"path": "/a.py", "new": {"a": 1}}
    [problem] = recording.problems
    assert "7 values were not plausible" in problem
    for name in ("rows of steps that go back (2)", "steps.duration (1)", "steps.rss (1)", "site.calls (1)"):
        assert name in problem
    assert main(["report", str(folder), "--format", "json", "--fail-on", "never"]) == 0


@FEW
@given(st.dictionaries(st.sampled_from(["path", "line", "step", "counts", "leaves", "norm", "parameters", "oom", "t"]), MEETS),
       st.sampled_from(["site", "lines", "numeric", "exception", "memory", "window", "of the future"]))  # fmt: skip
def test_fields_are_of_their_kind_or_gone(fields, type):
    wrong = Counter()
    found = judged(type, fields, wrong)
    assert found.keys() <= fields.keys()
    assert len(fields) - len(found) == wrong.total()
    assert judged(type, found, wrong) == found or any(value != value for value in found.values())
    if type == "lines" and found.get("counts"):
        assert all(len(row) >= 5 and row[4] >= 0 for row in found["counts"])


@FEW
@given(st.lists(st.tuples(st.integers(0, 50), st.floats(width=32), st.floats()), min_size=1, max_size=30))
def test_a_table_goes_on_and_has_amounts_only(rows):
    columns = {
        "index": array("I", (row[0] for row in rows)), "t": array("d", (row[2] for row in rows)),
        "duration": array("f", (row[1] for row in rows)), "loss": array("f", (row[1] for row in rows)),
    }  # fmt: skip
    wrong = Counter()
    table = sound("steps", Table(columns=columns), wrong)
    index, t = table.column("index"), table.column("t")
    assert all(a < b for a, b in pairwise(index))
    assert all(a <= b for a, b in pairwise(t))
    assert all(value != value or 0 <= value < 2**63 for value in table.column("duration"))
    assert bool(wrong) or len(table) == len(rows)


@FEW
@given(
    st.binary(max_size=60),
    st.lists(
        st.tuples(
            st.sampled_from([b"J", b"C", b"Z"]), st.binary(max_size=30) | MEETS.map(lambda v: json.dumps(v).encode())
        ),
        max_size=5,
    ),
)
def test_frames_of_anything_never_raise(tail, payloads):
    data = MAGIC + b"".join(frame(kind, payload) for kind, payload in payloads) + tail
    contents = read_frames(data)
    assert contents.lost <= len(tail)


@FEW
@given(MEETS, MEETS, MEETS)
def test_headers_of_blocks_that_lie(rows, name, columns):
    head = json.dumps({"table": name, "n": rows, "columns": columns}).encode()
    contents = read_frames(MAGIC + frame(b"C", head + b"\n" + bytes(64)))
    assert contents.bad == 1 or len(contents.table("steps")) == 0


def test_frames_and_records_have_budgets(monkeypatch):
    import gpudoctor.vitals.recording.gdr_file as process

    monkeypatch.setattr(process, "RECORDS", ReadLimit(3, "a file", "records"))
    record = frame(b"J", b'{"type":"site","t":1}')
    contents = read_frames(MAGIC + record * 5)
    assert len(contents.records) == 3
    assert contents.left == ("its records are more than 3 records",)


# -- other logs


# -- job scripts and sources


@pytest.mark.parametrize("line", ["X=$X$X", 'X="${X}${X}"', "X+=$X", 'A=("${A[@]}" "${A[@]}")'])
def test_a_doubled_variable_ends_at_its_budget(tmp_path, line):
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/bash\nX=aaaa\nA=(a b)\n" + f"{line}\n" * 60 + "torchrun train.py $X\n")
    with pytest.raises(Unavailable, match="its variables come to more than"):
        read_job(None, {}, [path])


def test_a_long_job_script_is_read(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/bash\nexport A=1\n" + "echo step $A\n" * 3_000 + "torchrun --nproc_per_node=4 train.py\n")
    assert read_job(None, {}, [path]).launches[0].ranks_per_node == 4


@pytest.mark.parametrize("text", ["x = 1\n" * 250_000, "[[],[]]\n" * 60_000, "x = " + " + ".join(["a"] * 900)])
def test_a_source_beyond_its_budget_is_named(tmp_path, text):
    path = tmp_path / "odd.py"
    path.write_text(text)
    [(_, sentence)] = read_source([path]).unread
    assert "the most that" in sentence and "odd.py" in sentence


# -- the guard


def test_a_fault_of_ours_is_called_one(tmp_path, monkeypatch, capsys):
    folder = write_recording(make_recording(), tmp_path / "run")

    def broken(*_):
        raise KeyError("nobody expected this")

    monkeypatch.setattr("gpudoctor.cli.report.read", broken)
    assert main(["report", str(folder)]) == DoctorError.exit_code
    err = capsys.readouterr().err
    assert "internal error: KeyError: 'nobody expected this'" in err
    assert "Traceback" not in err
    monkeypatch.setattr("gpudoctor.cli.report.read", lambda *_: (_ for _ in ()).throw(MemoryError()))
    assert main(["report", str(folder)]) == DoctorError.exit_code
    assert "out of memory" in capsys.readouterr().err
