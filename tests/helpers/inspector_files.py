"""Files of NCCL Inspector of simulated ranks.

The format is what `inspectorCommInfoDumpColl` of plugins/profiler/inspector/inspector_json.cc writes, in NVIDIA/nccl at
5067397c2676d5aed50042fc39e5c8ee96eb0027: one object a line, one file a process, named HOST-pidPID.log.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

START = 1_795_000_000_000_000


def record(
    *,
    rank: int,
    ranks: int,
    number: int,
    micros: int,
    stamp: int,
    host: str = "node1",
    pid: int | None = None,
    communicator: int = 0x7F8C496AE9F661,
    name: str = "unknown",
    nodes: int = 1,
    kind: str = "AllReduce",
    size: int = 64 << 20,
    source: str = "kernel_gpu",
) -> str:
    """One line, byte for byte as the C code writes it."""
    traffic = size * (ranks if kind in ("AllGather", "ReduceScatter") else 1)
    algorithm = traffic / 1e9 / (micros / 1e6) if micros else 0.0
    factor = (2 if kind == "AllReduce" else 1) * (ranks - 1) / ranks
    return (
        f'{{"header":{{"id":"0x{communicator:x}","comm_name":"{name}","rank":{rank},"n_ranks":{ranks},'
        f'"nnodes":{nodes}}},"metadata":{{"inspector_output_format_version":"v4.0","git_rev":"",'
        f'"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{stamp},"hostname":"{host}",'
        f'"pid":{4000 + rank if pid is None else pid}}},"coll_perf":{{"coll":"{kind}","coll_sn":{number},'
        f'"coll_msg_size_bytes":{size},"coll_exec_time_us":{micros},"coll_timing_source":"{source}",'
        f'"coll_algobw_gbs":{algorithm:f},"coll_busbw_gbs":{algorithm * factor:f}}}}}\n'
    )  # fmt: skip


def sent(**how: int | str) -> str:
    """A line about a send."""
    line = record(**how)  # type: ignore[arg-type]
    return line.replace('"coll_perf":{"coll":"AllReduce"', '"p2p_perf":{"p2p":"Send","p2p_peer":1').replace(
        "coll_", "p2p_"
    )


def lateness_of(rank: int, micros: int) -> Callable[[int, int], int]:
    """One rank that is late by so much in every collective."""
    return lambda who, _: micros if who == rank else 0


def write_job(
    folder: Path,
    ranks: int = 4,
    *,
    late: Callable[[int, int], int] = lambda _rank, _number: 0,
    collectives: int = 200,
    step: int = 100_000,
    transfer: int = 4_000,
    members: Sequence[int] | None = None,
    **how: int | str,
) -> list[Path]:
    """One file a process. Ranks enter at `late(rank, number)`; a kernel ends when the last one has sent its part."""
    folder.mkdir(exist_ok=True)
    noise = random.Random(7)
    lines: dict[int, list[str]] = {rank: [] for rank in range(ranks)}
    for number in range(collectives):
        entered = [late(rank, number) + noise.randrange(20) for rank in range(ranks)]
        end = max(entered) + transfer + noise.randrange(50)
        for rank in range(ranks):
            pid = 4000 + (members[rank] if members else rank)
            stamp = START + number * step + end
            lines[rank].append(
                record(
                    **{"pid": pid, **how},  # type: ignore[arg-type]
                    rank=rank,
                    ranks=ranks,
                    number=number,
                    micros=end - entered[rank],
                    stamp=stamp,
                )
            )
    paths = []
    for rank, written in lines.items():
        path = folder / f"node1-pid{4000 + (members[rank] if members else rank)}.log"
        with path.open("a") as stream:
            stream.write("".join(written))
        paths.append(path)
    return paths
