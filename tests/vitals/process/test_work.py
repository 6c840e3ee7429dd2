"""Whether a process works: a loop that mostly sleeps does, one that waits for a lock does not."""

import os
import subprocess
import sys
import time

import pytest

from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.process_tree import Member
from gpudoctor.vitals.process.ranks import WatchedRank

LOOPS = {
    "steps every 10 ms": "while True:\n    time.sleep(0.01)\n",
    "a short step now and then": "while True:\n    time.sleep(0.4)\n    sum(range(50_000))\n",
    "writes a line": "import os\nwhile True:\n    time.sleep(0.4)\n    os.write(1, b'step\\n')\n",
}
HANGS = {
    "a lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n",
    "a queue with a limit": "import queue\nq = queue.Queue()\nwhile True:\n    try:\n        q.get(timeout=0.5)\n"
    "    except queue.Empty:\n        pass\n",
    "a socket": "import socket\na, b = socket.socketpair()\na.recv(1)\n",
    "one long sleep": "time.sleep(3600)\n",
}


def quiet_seconds(programs: dict[str, str]) -> dict[str, float]:
    """Seconds of quiet that each program shows after 1.6 seconds of looking."""
    head = "import os, queue, socket, threading, time\nprint('ready', flush=True)\n"
    children = {
        name: subprocess.Popen([sys.executable, "-c", head + text], stdout=subprocess.PIPE)
        for name, text in programs.items()
    }
    try:
        for child in children.values():
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        ranks = {name: WatchedRank(_member(child.pid), 120.0) for name, child in children.items()}
        found = {}
        for t in (0.0, 1.6):
            found = {name: rank.tick(t, (), None, ()).quiet for name, rank in ranks.items()}
            time.sleep(1.6 - t)
        return found
    finally:
        for child in children.values():
            child.kill()
            child.communicate()


def _member(pid: int) -> Member:
    item = procfs.usage(pid)
    assert item is not None
    return Member(pid=pid, ppid=item.ppid, name=item.name, ticks=item.ticks, command=(), rank=None, job="", torch=True)


def test_what_works_and_what_does_not():
    if procfs.main_thread(os.getpid()) is None:
        pytest.skip("this kernel counts no CPU time of a thread")
    hangs = dict(HANGS)
    for _ in range(3):  # on a busy machine a mere waking may cost as much CPU time as work does
        found = quiet_seconds(LOOPS | hangs)
        assert {name: found[name] for name in LOOPS} == dict.fromkeys(LOOPS, 0.0)
        hangs = {name: hangs[name] for name in hangs if found[name] != 1.6}
        if not hangs:
            return
    assert not hangs
