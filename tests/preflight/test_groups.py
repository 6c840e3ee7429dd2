"""Two units over a plain connection, and what TCP sent again."""

import asyncio
import json
import os
import socket
import struct
import sys

import pytest
from forks import own_environment
from packages import need
from probed import run_ranks

from gpudoctor.preflight.measure import group
from gpudoctor.preflight.worker_process import WorkerProcess

WORK = {"address": "127.0.0.1", "payload": 1 << 16, "seconds": 0.05, "limit": 10.0, "size": 2}


def test_segments_are_the_kernels_counts_of_connections_to_other_machines(monkeypatch):
    class Counted(socket.socket):
        def getpeername(self):
            return ("10.9.9.9", 1)

        def getsockopt(self, level, *more):
            if (level, *more[:1]) != (socket.IPPROTO_TCP, socket.TCP_INFO):
                return super().getsockopt(level, *more)
            info = bytearray(256)
            struct.pack_into("I", info, 100, 7)
            struct.pack_into("I", info, 156, 1000)
            return bytes(info)

    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = [socket.create_connection(server.getsockname()), server.accept()[0]]
        monkeypatch.setattr(group.os, "listdir", lambda _: [str(end.fileno()) for end in ends])
        assert group.sent_again() == [0, 0]
        monkeypatch.setattr(group.socket, "socket", Counted)
        assert group.sent_again() == [14, 2000]
        for end in ends:
            assert end.getsockname()  # still open
            end.close()


def together(backend, count, **more):
    """What so many workers of this machine answer to one test of them together."""

    async def ask():
        workers = [WorkerProcess(sys.executable, os.environ, "gpudoctor.preflight.worker") for _ in range(count)]
        try:
            common = {**WORK, "backend": backend, "size": count, **more}
            opened = await workers[0].ask({**common, "do": "group.open_port"}, 60.0)
            work = {**common, "do": "group.examine", "port": opened["port"], "limit": 60.0}
            asked = (worker.ask({**work, "index": at, "local": at}, 60.0) for at, worker in enumerate(workers))
            return await asyncio.gather(*asked)
        finally:
            await asyncio.gather(*(worker.close() for worker in workers))

    return asyncio.run(ask())


UNIT = """
import json, os, sys
from gpudoctor.preflight.measure import group
at, state = int(os.environ["RANK"]), {}
work = {**json.loads(sys.argv[1]), "index": at, "local": at, "port": 0}
place = os.path.join(os.path.dirname(__file__), "port")
if at == 0:
    with open(place + ".part", "w") as file:
        file.write(str(group.open_port(work, state)["port"]))
    os.rename(place + ".part", place)
while not os.path.exists(place):
    pass
with open(place) as file:
    print(json.dumps(group.examine({**work, "port": int(file.read())}, state)))
"""


@pytest.mark.slow
def test_two_units_of_torch_measure_too(tmp_path):
    need("torch")
    script = tmp_path / "unit.py"
    script.write_text(UNIT)
    ended = run_ranks(script, [json.dumps({**WORK, "backend": "gloo"})], own_environment(), 2)
    first, second = (json.loads(one.stdout) for one in ended)
    kinds = [(item["quantity"], item.get("direction", "")) for item in first["figures"]]
    assert kinds == [
        ("latency", ""), ("bus_bandwidth", ""),
    ]  # fmt: skip
    assert all(item["value"] > 0 for item in first["figures"]) and "failure" not in {*first, *second}


@pytest.mark.gpu
def test_an_all_reduce_of_nccl_gives_a_figure():
    cards = cards_here(2)
    answers = together("nccl", min(2, cards), payload=64 << 20)
    assert not any(answer.get("failure") for answer in answers)
    bandwidth = next(item for item in answers[0]["figures"] if item["quantity"] == "bus_bandwidth")
    assert bandwidth["value"] > 1e9


@pytest.mark.gpu
def test_copies_between_two_cards_go_both_ways():
    cards = cards_here(2)
    found = group.peers({"cards": list(range(cards)), "payload": 64 << 20, "seconds": 0.05}, {})["figures"]
    assert {tuple(item["pair"]) for item in found} == {(a, b) for a in range(cards) for b in range(cards) if a != b}
    assert all(item["value"] > 1e9 for item in found)


def cards_here(least):
    """The number of cards of this machine; skips where there are fewer."""
    torch = pytest.importorskip("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < least:
        pytest.skip(f"{count} cards here, {least} are needed")
    return count
