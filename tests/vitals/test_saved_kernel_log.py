"""A saved kernel log: every line is counted, those of the driver are kept, and a large one takes little memory."""

import time
import tracemalloc

import pytest

from gpudoctor.vitals.saved_kernel_log import read_saved_log

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=411, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_messages_have_their_line_numbers(encoding, tmp_path):
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
    path.write_text((usual + f"[    2.000000] {XID}\n") * 20)  # 2 MB
    begun = time.process_time()
    log = read_saved_log(path)
    taken = time.process_time() - begun
    assert (log.read, len(log.messages)) == (20_000, 20)
    assert taken < 1.0, "one megabyte has taken more than 0.1 s; it takes 0.02 s"
    tracemalloc.start()
    try:
        read_saved_log(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
