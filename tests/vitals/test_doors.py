"""Doors: what is read of files from outside is bounded, regular, and judged where it enters."""

import gzip
import json
import math
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import MAGIC, frame, make_process, make_recording, make_steps, write_recording

from gpudoctor.cli import main
from gpudoctor.errors import DoctorError
from gpudoctor.model import external_files
from gpudoctor.model.external_files import Damaged, RefusedFile, load_json, open_unpacked, read_file, unpacked_most
from gpudoctor.model.read_limits import ReadLimit
from gpudoctor.vitals.recording.gdr_file import read_frames
from gpudoctor.vitals.recording.reader import read_recording

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


def test_a_packed_file_is_unpacked_to_fifty_times_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(external_files, "UNPACKED_START", 8 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (16 << 20)))
    assert unpacked_most(path.stat().st_size, ReadLimit(1 << 30, "a test")) < 10 << 20
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
