"""The reader: the same answer however the bytes arrive, packed, wide, cut, damaged and endless files."""

import gzip
import io
import os
import sys
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Unavailable
from gpudoctor.vitals.job_log import lines, read_job_log

MESSAGES = tuple(load_registry().log_messages())
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/home/ann/train.py", line 12, in main\n    step(batch)\n'
    "ValueError: the batch has no labels\n"
)
DEATH = "step 900: loss 0.25\n" + TRACEBACK


def read(path, data=None):
    if data is not None:
        path.write_bytes(data)
    return read_job_log([str(path)], MESSAGES)


def exceptions(log):
    return [item.exception for item in log.events if item.exception]


# However the bytes arrive

PARTS = (
    *(f"step {number}: loss 0.{number}\n" for number in range(40, 60)),
    *(f"\r {number}%|##   | {number}/100 [00:0{number % 9}<01:00, 2.1it/s]" for number in range(30, 50)),
    "\n",
    "\r\n",
    "\r",
    "\0" * 40,
    "x" * 20_000,
    TRACEBACK,
    TRACEBACK.replace("\n", "\r\n"),
    "[rank1]: " + TRACEBACK.replace("\n", "\n[rank1]: "),
    "\x1b[31mRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\x1b[0m\n",
    "KeyError: 'labels'\n",
    "node1:77:99 [0] NCCL INFO Channel 00/02 : 0 1\n",
    "WARNING: the gradient norm is not finite\n",
    "worker 3 exited with exit code 0\n",
    "训练失败: 数据不完整\n",
    "Training completed\n",
)


@settings(max_examples=8, deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from(PARTS), st.integers(1, 30)), max_size=12))
def test_what_a_log_says_does_not_depend_on_the_blocks(tmp_path_factory, patch, parts):
    data = "".join(text * (times if len(text) < 1000 else 1) for text, times in parts).encode() + DEATH.encode()
    path = tmp_path_factory.mktemp("logs") / "job.out"
    whole = read(path, data)
    for size in (1, 7, 4096) if len(data) < 20_000 else (97, 4096):
        patch.setattr(lines, "BLOCK", size)
        assert str(read(path)) == str(whole)
    patch.undo()
    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Dribble(data))))
    piped = read_job_log(["-"], MESSAGES)
    patch.undo()
    assert replace(piped.files[0], path=str(path)) == whole.files[0]
    assert [str(replace(item, path=str(path))) for item in piped.events] == list(map(str, whole.events))


class Dribble(io.RawIOBase):
    """A pipe that gives a few bytes at once."""

    def __init__(self, data):
        self._data, self._at = data, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self._data[self._at : self._at + min(len(buffer), 1000 + self._at % 997)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


# Lines without end


def test_an_error_at_the_end_of_a_line_of_bars_is_read(tmp_path):
    bars = "".join(f"\r {n // 1000}%|## | {n}/100000 [00:10<01:00, 2.10it/s]" for n in range(30_000))
    log = read(
        tmp_path / "job.out", (bars + "\rRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n").encode()
    )
    assert [item.code for item in log.events] == ["MEM009"]
    assert log.events[0].line == 1
    assert log.events[0].step == 29_999


def test_the_middle_of_an_endless_line_is_left_out(tmp_path):
    path = tmp_path / "job.out"
    with path.open("wb") as file:
        for _ in range(60):
            file.write(b"tensor([0.25, 0.75, " * 52_429)
        file.write(b"\n" + DEATH.encode())
    tracemalloc.start()
    try:
        log = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert exceptions(log) == ["ValueError"]
    assert log.events[0].line == 6
    assert peak < 40 << 20


def test_both_ends_of_a_long_line_are_read(tmp_path):
    middle = "1.25, " * 50_000
    log = read(tmp_path / "a.out", f"RuntimeError: CUDA out of memory. Tried to allocate 2 GiB {middle}\n".encode())
    assert [item.code for item in log.events] == ["MEM009"]
    log = read(tmp_path / "b.out", f"{middle} torch.cuda.OutOfMemoryError: CUDA out of memory\n".encode())
    assert [item.code for item in log.events] == ["MEM009"]


# Archives


def test_all_members_of_an_archive_are_read(tmp_path):
    begin = b"step 1: loss 0.5\n" * 1000
    log = read(tmp_path / "a.gz", gzip.compress(begin) + gzip.compress(DEATH.encode()))
    assert (exceptions(log), log.files[0].lines, log.problems) == (["ValueError"], 1005, ())


def test_what_a_cut_archive_still_gives_is_read(tmp_path):
    noise = os.urandom(400_000).hex().encode()
    packed = gzip.compress(DEATH.encode() + noise)
    log = read(tmp_path / "job.out.gz", packed[: len(packed) // 2])
    assert exceptions(log) == ["ValueError"]
    assert "its packing is damaged" in log.problems[0]
    assert "gpudoctor read" in log.problems[0]


# Encodings


@pytest.mark.parametrize("form", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_encoding_gives_the_same_events(tmp_path, form, end):
    path = tmp_path / "job.out"
    plain = read(path, (DEATH * 3).encode())
    log = read(path, (DEATH * 3).replace("\n", end).encode(form))
    assert str(log.events) == str(plain.events)
    assert log.files[0].lines == plain.files[0].lines


def test_zeros_that_a_cut_log_holds_are_no_sign_of_a_binary(tmp_path):
    log = read(tmp_path / "a.out", bytes(300_000) + DEATH.encode())
    assert (exceptions(log), log.events[0].step) == (["ValueError"], 900)
    log = read(tmp_path / "b.out", b"step 3: loss 1.5" + bytes(5000) + DEATH.encode())
    assert exceptions(log) == ["ValueError"]
    with pytest.raises(Unavailable, match="is not text"):
        read(tmp_path / "c.out", bytes(range(32)) * 1000)


# Exception groups

GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/ann/train.py", line 40, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/ann/shards.py", line 7, in fetch
    |     raise error
    | {first}
    +---------------- 2 ----------------
    | Exception Group Traceback (most recent call last):
    |   File "/home/ann/shards.py", line 9, in fetch
    |     await more()
    | ExceptionGroup: inner (1 sub-exception)
    +-+---------------- 1 ----------------
      | Traceback (most recent call last):
      |   File "/home/ann/shards.py", line 11, in fetch
      |     raise KeyError("shard")
      | KeyError: 'shard'
      +------------------------------------
"""


def test_an_exception_inside_a_group_is_named(tmp_path):
    log = read(tmp_path / "job.out", GROUP.format(first="ShardError: shard 7 has no index").encode())
    assert (log.events[0].exception, log.events[0].line) == ("ShardError", 9)
