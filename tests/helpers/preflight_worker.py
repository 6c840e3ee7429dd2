"""A worker without torch, for tests: canned figures of cards, real connections between nodes, faults on demand.

STANDIN_FAULT is `WORK KIND`: at the first piece of such work (`about`, `card`, `peers` between the cards of a node,
`group`, `group3` of three and more, `storage`, `burn`) it kills or stops its rank or itself, hangs, or gives a wrong
value. `arrive` and `report` are preflight_agent.py's. Figures of groups are canned unless STANDIN_REAL is set, and the
CPUs compute in fact if STANDIN_COMPUTE is.
"""

import hashlib
import os
import signal
import socket
import time

from gpudoctor.preflight import worker
from gpudoctor.preflight.measure import group
from gpudoctor.preflight.measure.timing import figure

DIGEST = "98ec82cf749aa4ec"


def main():
    worker.carry_out = carry_out
    return worker.main()


def carry_out(work, state):
    kind = work["do"].partition(".")[0]
    if work["do"] in ("card.burn", "group.peers"):
        kind = work["do"].partition(".")[2]
    if work["do"] == "group.examine" and work["size"] > 2:
        kind = "group3"
    digest = fault(kind)
    if kind == "about":
        facts = {"torch": os.environ.get("STANDIN_TORCH", "2.13.0")}
        cards = int(os.environ.get("STANDIN_CARDS", "0"))
        torch = not os.environ.get("STANDIN_NO_TORCH")
        failure = {} if torch else {"failure": "torch is not installed in this interpreter"}
        return {"facts": facts, "cards": cards, "torch": torch, "cards_failure": "", **failure}
    if kind in ("card", "burn"):
        speed = float(os.environ.get("STANDIN_SPEED", "1e11"))
        times = computed() if os.environ.get("STANDIN_COMPUTE") else [2.0**31 / speed] * 3
        figures = [figure("matmul", times, 2.0**31, dtype="fp32")]
        if work["device"] == "cuda":
            card = {"name": "NVIDIA H100 80GB HBM3", "bus_id": f"0000000{work['local']}:00:00.0", "uuid": "GPU-1"}
            return {**card, "figures": figures, "digests": {"bf16 1024": [DIGEST, digest or DIGEST]}}
        return {"device": "cpu", "figures": figures, "digests": {"fp32 1024": [DIGEST, digest or DIGEST]}}
    if work["do"] == "group.peers":
        pairs = [[a, b] for a in work["cards"] for b in work["cards"] if a != b]
        return {"figures": [{"quantity": "peer_bandwidth", "value": 3e11, "pair": pair} for pair in pairs]}
    if work["do"] == "group.open_port":
        state["listener"] = socket.create_server(("", 0))
        return {"port": state["listener"].getsockname()[1]}
    if work["do"] == "group.examine":
        try:
            answer = talk(work, state)
        except OSError as error:
            return {"failure": str(error)}
        return answer if os.environ.get("STANDIN_REAL") else calm(answer)
    return worker_carry_out(work, state)


worker_carry_out = worker.carry_out


def fault(kind):
    """Do what STANDIN_FAULT says at this work; the digest of a corrupted value, or None."""
    at, _, what = os.environ.get("STANDIN_FAULT", "").partition(" ")
    if at != kind:
        return None
    if what == "kill rank":
        os.kill(os.getppid(), signal.SIGKILL)
    elif what == "stop rank":
        os.kill(os.getppid(), signal.SIGSTOP)
    elif what == "pause rank":  # as a machine does that sleeps, or that other jobs use: longer than its peers wait
        rank = os.getppid()
        os.kill(rank, signal.SIGSTOP)
        time.sleep(5.0)
        os.kill(rank, signal.SIGCONT)
    elif what == "kill worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "stop worker":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "terminate rank":
        os.kill(os.getppid(), signal.SIGTERM)
        stand_still()
    elif what == "hang":
        stand_still()
    return "0000000000000000" if what == "corrupt" else None


def computed():
    """Least seconds of equal pieces of work: other programs slow some of them, a CPU quota each one.

    One rank at a time: the nodes of a test share one machine's CPUs.
    """
    import fcntl

    times = []
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(4):
            begin = time.perf_counter()
            for _ in range(400):
                hashlib.sha256(bytes(1 << 16)).digest()
            times.append(time.perf_counter() - begin)
    return [min(times)]


def calm(answer):
    """The same figures in each test: a busy machine's own noise would make the search test further."""
    values = {"latency": 1e-5, "bus_bandwidth": 1e9}
    return {"figures": [{**item, "value": values[item["quantity"]], "spread": 0.0} for item in answer["figures"]]}


def stand_still():
    time.sleep(600)


def talk(work, state):
    """The first of several sends a payload to each other one and receives one, then the next one."""
    if work["index"] == 0:
        listener = state.pop("listener")
        listener.settimeout(work["limit"])
        streams = [listener.accept()[0] for _ in range(work["size"] - 1)]
        listener.close()
    else:
        streams = [socket.create_connection((work["address"], work["port"]), timeout=work["limit"])]
    for stream in streams:
        stream.settimeout(work["limit"])
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def turn(count):
        begin = time.perf_counter()
        for stream in streams:
            for sends in (work["index"] == 0, work["index"] != 0):
                stream.sendall(bytes(count)) if sends else take(stream, count)
        return time.perf_counter() - begin

    figures = []
    if work["size"] == 2:
        figures.append(figure("latency", [turn(8) / 2 for _ in range(30)][5:], payload=8, algorithm="tcp"))
    # one partner after the other, there and back: what a ring would reach at the same rate
    payload = work["payload"]
    amount = payload * 2.0 * (work["size"] - 1)
    times = [turn(payload) for _ in range(5)][2:]
    figures.append(figure("bus_bandwidth", times, amount, payload=payload, algorithm="tcp"))
    segments = group.sent_again()
    for stream in streams:
        stream.close()
    return {"figures": figures, "segments": segments}


def take(stream, count):
    while count:
        got = len(stream.recv(min(count, 1 << 18)))
        if not got:
            raise ConnectionError("the other side closed the connection")
        count -= got
