"""Network namespaces as nodes: one bridge, an interface a node, rates by tc, delay and loss by a relay of our own.

Names begin with `gpd` and the process's number, so that tests beside each other do not meet. All of it goes with
`close`, and the kernel removes the interfaces with their namespaces.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

RELAY = str(Path(__file__).with_name("relay.py"))


@cache
def why_not() -> str:
    """Why no namespace can be had here; "" if one can."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "namespaces need root"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"the program {tool} (iproute2) is not installed"
    name = f"gpd{os.getpid()}probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"ip netns add: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return ""


def ip(*words: str, inside: str = "") -> None:
    """Run ip, in a namespace if one is named."""
    subprocess.run(["ip", *(("-n", inside) if inside else ()), *words], check=True, capture_output=True, timeout=20)


class Net:
    """Nodes with the addresses 10.77.0.1 and up, all on one switch."""

    def __init__(self, count: int) -> None:
        self.mark = f"gpd{os.getpid()}"
        self.switch = f"{self.mark}s"
        self.names = [f"{self.mark}n{index}" for index in range(count)]
        self.made: list[str] = []
        self.relays: list[subprocess.Popen[str]] = []

    def open(self) -> None:
        self._namespace(self.switch)
        ip("link", "add", "br0", "type", "bridge", inside=self.switch)
        ip("link", "set", "br0", "up", inside=self.switch)
        for index, name in enumerate(self.names):
            self._namespace(name)
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"p{index}", "netns", self.switch)
            ip("link", "set", f"p{index}", "master", "br0", "up", inside=self.switch)
            ip("address", "add", f"{self.address(index)}/24", "dev", "eth0", inside=name)
            ip("link", "set", "eth0", "up", inside=name)

    def _namespace(self, name: str) -> None:
        ip("netns", "add", name)
        self.made.append(name)
        ip("link", "set", "lo", "up", inside=name)

    def close(self) -> None:
        for process in self.relays:
            process.kill()
            process.wait()
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def address(self, index: int) -> str:
        return f"10.77.0.{index + 1}"

    def slow(self, index: int, megabits: float, *, sending: bool = True) -> None:
        """Let a node send, or else receive, at this rate only."""
        inside, device = (self.names[index], "eth0") if sending else (self.switch, f"p{index}")
        rate = ["rate", f"{megabits}mbit", "burst", "32kb", "latency", "200ms"]
        subprocess.run(
            ["tc", "-n", inside, "qdisc", "replace", "dev", device, "root", "tbf", *rate],
            check=True, capture_output=True, timeout=20,
        )  # fmt: skip

    def impair(self, index: int, *, loss: float = 0.0, delay: float = 0.0, sending: bool = True) -> None:
        """Lose this share of what a node sends, or else receives, or let it come so many seconds late.

        A relay stands between the node and the switch, because the kernel may have no netem.
        """
        for name in self.names:
            self._python(name, "plain", "eth0")
        near, far = f"p{index}", f"r{index}"
        ip("link", "set", near, "nomaster", inside=self.switch)
        ip("link", "add", far, "type", "veth", "peer", "name", f"b{index}", inside=self.switch)
        ip("link", "set", f"b{index}", "master", "br0", "up", inside=self.switch)
        ip("link", "set", far, "up", inside=self.switch)
        ends = (near, far) if sending else (far, near)
        words = [*self.inside(self.switch), sys.executable, RELAY, *ends, str(loss), str(delay)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.relays.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"

    def _python(self, name: str, *words: str) -> None:
        subprocess.run([*self.inside(name), sys.executable, RELAY, *words], check=True, timeout=20)

    @staticmethod
    def inside(name: str) -> list[str]:
        return ["ip", "netns", "exec", name]

    def block(self, index: int, other: int) -> None:
        """Drop what a node sends to another one, without a word."""
        ip("route", "add", "blackhole", f"{self.address(other)}/32", inside=self.names[index])


@contextmanager
def network(count: int) -> Iterator[Net]:
    """Nodes on one switch, gone at the end."""
    net = Net(count)
    try:
        net.open()
        yield net
    finally:
        net.close()
