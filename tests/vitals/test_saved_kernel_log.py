"""A large saved kernel log: read in blocks, with the answers of a reading line by line."""

import io
import random
import time
import tracemalloc

import pytest

from gpudoctor.model.read_limits import KERNEL_LINE
from gpudoctor.vitals import log_lines
from gpudoctor.vitals.kernel_lines import count_kernel_lines, parse
from gpudoctor.vitals.log_lines import blocks_of
from gpudoctor.vitals.saved_kernel_log import read_saved_log

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=411, name=python, GPU has fallen off the bus."
PREFIXES = (
    "[   99.000001] ", "[   99.000001][  T411] ", "kern  :warn  : [   99.000001] ", "<4>[   99.000001] ",
    "[   99.000001] node7 kernel: ", "Feb  3 04:05:06 node7 kernel: [   12.345678] ",
    "2024-02-03T04:05:06+0100 node7 kernel: ", "Sat 2024-02-03 04:05:06 UTC node7 kernel: ",
    "1706929506.123456 node7 kernel: ", "[Mon Feb  3 10:00:00 2025] ", "[Mo Mär  3 10:00:00 2025] ",
    "2025-02-03T10:00:00,123456+01:00 ", "", "[", "[   99.000001]", "Feb  3 04:05:06 node7 sshd[123]: ", "kernel: ",
)  # fmt: skip
BODIES = ("usb 1-1: new device", XID, "", "x" * 300, "nvrm: xid odd", "[drm] NVRM is loaded", "é")


def some_lines(seed, number=400):
    draw = random.Random(seed)
    return [draw.choice(PREFIXES) + draw.choice(BODIES) for _ in range(number)]


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_counted_where_it_can_be_taken_apart(seed):
    for line in some_lines(seed):
        assert count_kernel_lines([line.encode()]) == (parse(line) is not None), line


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_blocks_have_every_line_once_wherever_they_are_cut(piece, ending, monkeypatch):
    monkeypatch.setattr(log_lines, "_PIECE", piece)
    lines = some_lines(9, 60)
    data = (ending or "\n").join(lines) + ending
    blocks = list(blocks_of(io.BufferedReader(io.BytesIO(data.encode())), KERNEL_LINE))
    assert b"".join(block.data for block in blocks).decode().split("\n") == [*lines, *([""] if ending else [])]
    assert all(block.data.endswith(b"\n") for block in blocks[:-1]) and not sum(block.long for block in blocks)


@pytest.mark.parametrize("piece", [1000, 1 << 20])
def test_a_long_line_keeps_its_beginning_and_costs_no_memory(piece, monkeypatch):
    monkeypatch.setattr(log_lines, "_PIECE", piece)
    data = b"[ 1.0] a\n[ 2.0] " + b"x" * (3 * KERNEL_LINE.most) + b"\n[ 3.0] b\n"
    blocks = list(blocks_of(io.BufferedReader(io.BytesIO(data)), KERNEL_LINE))
    lines = b"".join(block.data for block in blocks).split(b"\n")
    assert [line[:8] for line in lines] == [b"[ 1.0] a", b"[ 2.0] x", b"[ 3.0] b", b""]
    assert sum(block.long for block in blocks) == 1 and len(lines[1]) == KERNEL_LINE.most


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_messages_have_their_line_numbers_across_blocks(encoding, tmp_path, monkeypatch):
    monkeypatch.setattr(log_lines, "_PIECE", 4096)
    lines = ["[    1.000000] usb"] * 5000
    for place in (0, 123, 4999):
        lines[place] = f"[    2.000000] {XID}"
    (tmp_path / "dmesg.log").write_bytes(("\n".join(lines) + "\n").encode(encoding))
    log = read_saved_log(tmp_path / "dmesg.log")
    assert [message.line for message in log.messages] == [1, 124, 5000]
    assert log.read == 5000 and log.problems == ()


def test_a_large_log_takes_seconds_and_little_memory(tmp_path):
    path = tmp_path / "big.log"
    usual = "[    1.000000] audit: type=1400 audit(1706929506.123:45): operation=open profile=x\n" * 999
    path.write_text((usual + f"[    2.000000] {XID}\n") * 240)  # 20 MB
    begun = time.process_time()
    log = read_saved_log(path)
    taken = time.process_time() - begun
    assert (log.read, len(log.messages)) == (240_000, 240)
    assert taken < 2.0, "one megabyte has taken more than 0.1 s; it takes 0.02 s"
    tracemalloc.start()
    try:
        read_saved_log(path)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
