"""A relay of Ethernet frames between two interfaces that loses or delays them: for kernels without netem.

    python relay.py A B LOSS DELAY     from A to B with this share lost and these seconds late; B to A as they are

It runs in the namespace of both interfaces and needs root. It prints a line when it is ready. Senders must write
whole checksums and frames of the wire's size: `python relay.py plain DEVICE` sees to that in their namespace.
"""

import contextlib
import ctypes
import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time

SIOCETHTOOL = 0x8946
OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)
"""Of the ioctl: transmit checksums, TSO, GSO, GRO."""
FRAME = 1 << 16
OUTGOING = 4


def plain(device):
    """Have the kernel of this namespace write checksums itself, and no frame larger than the wire's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for number in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", number, 0), 8)
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            with contextlib.suppress(OSError):  # a kernel without this offload
                fcntl.ioctl(control, SIOCETHTOOL, request)


def relay(one, other, loss, delay):
    ends = []
    for name in (one, other):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.bind((name, 3))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        end.setblocking(False)
        ends.append(end)
    print("ready", flush=True)
    chance = random.Random(1)
    late: list[tuple[float, int, bytes]] = []
    count = 0
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select(ends, [], [], wait)
        for end in ready:
            for _ in range(64):
                try:
                    frame, (_, _, kind, *_) = end.recvfrom(FRAME)
                except OSError:
                    break
                if kind == OUTGOING:
                    continue
                if end is ends[0]:
                    if chance.random() < loss:
                        continue
                    if delay:
                        count += 1
                        heapq.heappush(late, (time.monotonic() + delay, count, frame))
                        continue
                _pass(ends[1] if end is ends[0] else ends[0], frame)
        while late and late[0][0] <= time.monotonic():
            _pass(ends[1], heapq.heappop(late)[2])


def _pass(end, frame):
    with contextlib.suppress(OSError):  # a full queue loses frames, as a switch does
        end.send(frame)


if __name__ == "__main__":
    if sys.argv[1] == "plain":
        plain(sys.argv[2])
    else:
        relay(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
