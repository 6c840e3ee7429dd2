"""Several units together: latency of a small message, bandwidth of a large one, the sum of an all-reduce."""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import struct
import time
from datetime import timedelta
from typing import Any

from gpudoctor.preflight.measure.timing import figure
from gpudoctor.preflight.worker import load_torch

WARMUPS = 2
SMALL = 8
"""Bytes of the small message."""
_RETRANSMITTED, _SENT, _TCP_INFO = 100, 156, 160
"""In the kernel's tcp_info (linux/tcp.h): tcpi_total_retrans, tcpi_data_segs_out (Linux 4.6); a length."""


def open_port(work: Any, state: Any) -> Any:
    """A port at which the others of a group find this unit."""
    load_torch()
    from torch.distributed import TCPStore

    limit = timedelta(seconds=work["limit"])
    # the members come one after the other: the store must not wait for them here
    store = TCPStore(work["address"], 0, is_master=True, wait_for_workers=False, timeout=limit)
    state["store"] = store
    return {"port": store.port}


def examine(work: Any, state: Any) -> Any:
    """Figures of one group; each of its units gets this work, with its index among them."""
    torch = load_torch()
    from torch import distributed

    limit = timedelta(seconds=work["limit"])
    store = state.pop("store", None) if work["index"] == 0 else None
    if store is None:
        store = distributed.TCPStore(
            work["address"], work["port"], is_master=False, wait_for_workers=False, timeout=limit
        )
    device = torch.device("cpu") if work["backend"] == "gloo" else torch.device("cuda", work["local"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    begin = time.monotonic()
    distributed.init_process_group(
        work["backend"], store=store, rank=work["index"], world_size=work["size"], timeout=limit
    )
    try:
        figures, wrong = _measure(torch, distributed, device, work)
        distributed.barrier()
        segments = sent_again()
    finally:
        distributed.destroy_process_group()
    answer = {"figures": figures, "seconds": time.monotonic() - begin, "segments": segments}
    if wrong:
        answer["failure"] = wrong
        answer["wrong"] = True
    return answer


def _measure(torch: Any, distributed: Any, device: Any, work: Any) -> Any:
    figures = []
    if work["size"] == 2:
        figures.append(_latency(torch, distributed, device))
    bandwidth, wrong = _bandwidth(torch, distributed, device, work)
    figures.append(bandwidth)
    return figures, wrong


def _latency(torch: Any, distributed: Any, device: Any) -> Any:
    """Seconds of a small message one way: half of a small all-reduce of two, which is one there and one back.

    Not `send` and `recv`: Gloo connects them lazily, and refuses the first one that comes too early.
    """
    small = torch.zeros(SMALL // 4, dtype=torch.float32, device=device)
    times: list[float] = []
    for turn in range(60):
        begin = time.perf_counter()
        distributed.all_reduce(small)
        _settle(torch, device)
        if turn >= 10:
            times.append((time.perf_counter() - begin) / 2)
    return figure("latency", times, payload=SMALL)


def _bandwidth(torch: Any, distributed: Any, device: Any, work: Any) -> Any:
    """Bus bandwidth of an all-reduce; all units stop together, when the first one's time is over."""
    size = work["size"]
    count = max(64, work["payload"] // 4)
    values = torch.empty(count, dtype=torch.float32, device=device)
    times: list[float] = []
    start = end = time.perf_counter()
    for turn in range(10_000):
        if turn == WARMUPS:
            end = time.perf_counter() + work["seconds"]
        values.fill_(work["index"] + 1)
        # the first number says whether the first unit has had enough; the others follow it
        values[0] = float(work["index"] == 0 and _enough(turn, start, end, work["seconds"]))
        _settle(torch, device)
        begin = time.perf_counter()
        distributed.all_reduce(values)
        _settle(torch, device)
        times.append(time.perf_counter() - begin)
        if float(values[0]):
            break
    times = _warm(times)
    expected = size * (size + 1) / 2
    wrong = ""
    if not bool((values[1:] == expected).all()):
        bad = int((values[1:] != expected).sum())
        wrong = f"the sum of an all-reduce is wrong in {bad} of {count - 1} numbers"
    amount = 2.0 * (size - 1) / size * count * 4
    return figure("bus_bandwidth", times, amount, payload=count * 4), wrong


def _enough(turn: Any, start: Any, end: Any, seconds: Any) -> Any:
    """Whether this turn is the last one: the time is over. On a slow path the third one is."""
    now = time.perf_counter()
    return (turn > WARMUPS + 1 and now > end) or (turn >= 2 and now > start + 2 * seconds)


def _warm(times: Any) -> Any:
    """The times without those of the first turns, but two at least."""
    return times[min(WARMUPS, len(times) - 2) :]


def sent_again() -> Any:
    """Data segments that this process's sockets sent to other machines, and how many of them they sent again.

    By the kernel's count of each TCP connection. Zeros where it has none, or where RDMA carries the data.
    """
    again = sent = 0
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return [0, 0]
    for number in numbers:
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(number)) as stream:
                if stream.family not in (socket.AF_INET, socket.AF_INET6) or stream.type != socket.SOCK_STREAM:
                    continue
                if stream.getpeername()[0] == stream.getsockname()[0]:
                    continue
                known = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                if len(known) >= _TCP_INFO:
                    again += struct.unpack_from("I", known, _RETRANSMITTED)[0]
                    sent += struct.unpack_from("I", known, _SENT)[0]
    return [again, sent]


def _settle(torch: Any, device: Any) -> Any:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# Inside a node: copies from card to card, by one process.


def peers(work: Any, _: Any) -> Any:
    """Bytes a second from each card of a node to each other one."""
    torch = load_torch()
    cards = work["cards"]
    size = work["payload"]
    found = []
    for source in cards:
        for target in cards:
            if source != target:
                found.append(dict(_copy(torch, source, target, size, work["seconds"]), pair=[source, target]))
    return {"figures": found}


def _copy(torch: Any, source: Any, target: Any, size: Any, seconds: Any) -> Any:
    here = torch.ones(size, dtype=torch.uint8, device=torch.device("cuda", source))
    there = torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", target))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 4 or time.perf_counter() < end:
        begin = time.perf_counter()
        there.copy_(here, non_blocking=True)
        torch.cuda.synchronize(target)
        torch.cuda.synchronize(source)
        times.append(time.perf_counter() - begin)
    times = times[1:]
    return dict(figure("peer_bandwidth", times, float(size), payload=size), median=statistics.median(times))
