"""What `gpudoctor watch` costs: its own CPU and memory, its first frame and verdict, and the target's slowdown.

    python benchmarks/watch_overhead.py [--seconds 20] [--pairs 12] [--json FILE]

The job is simulated: a training loop on the CPU with 16 loader workers, beside 8 GPUs of a fake NVML at the C
boundary (tests/helpers; left out without a C compiler). CPU is that of the command with all its children, those
that have ended included, after its first ten seconds; memory is its proportional set size with its children.
The slowdown is of pairs of windows in one process, watch on and off in turn, with the same pairs of no watch at
all beside it. nvitop is measured the same way where it is installed.
"""

import argparse
import fcntl
import json
import os
import pty
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
TICK = os.sysconf("SC_CLK_TCK")
WARM_UP = 10.0
Mark = tuple[int, float, float]
TARGET = """
import os, sys, time
workers = []
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(0.01)
    workers.append(pid)

def step(n):
    total = 0.0
    for i in range(n):
        total += i * 0.5
    return total

def main():
    count = 0
    print("ready", flush=True)
    told = time.perf_counter()
    while True:
        step(2000)
        count += 1
        if count % 50 == 0:
            now = time.perf_counter()
            if now - told >= 0.25:
                os.write(3, f"{count} {now} {time.process_time()}\\n".encode())
                told = now

main()
"""


def stat(pid: int) -> tuple[float, int, list[int]]:
    """CPU seconds with reaped children, parent, and children of a process."""
    data = Path(f"/proc/{pid}/stat").read_bytes()
    fields = data[data.rfind(b")") + 2 :].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for task in os.listdir(f"/proc/{pid}/task"):
        if int(task) != pid:
            children += Path(f"/proc/{pid}/task/{task}/children").read_text().split()
    return sum(map(int, fields[11:15])) / TICK, int(fields[1]), [int(child) for child in children]


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process and all below it; a child that ends meanwhile is counted with its parent."""
    try:
        cpu, _, children = stat(pid)
    except (OSError, IndexError, ValueError):
        return 0.0
    return cpu + sum(tree_cpu(child) for child in children)


def tree_pss(pid: int) -> int:
    """Proportional set size of a process and all below it, bytes."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        own = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) << 10
        return own + sum(tree_pss(child) for child in stat(pid)[2])
    except (OSError, StopIteration, ValueError):
        return 0


@contextmanager
def target(folder: Path, workers: int) -> Iterator[tuple[int, list[Mark]]]:
    """A running loop; its pid and a list that fills with iterations, wall-clock and CPU seconds."""
    script = folder / "train.py"
    script.write_text(TARGET)
    read, write = os.pipe()
    child = subprocess.Popen(
        [sys.executable, str(script), str(workers)],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.dup2(write, 3),
        pass_fds=(3, write),
        start_new_session=True,
    )
    os.close(write)
    assert child.stdout is not None
    child.stdout.readline()
    marks: list[Mark] = []

    def listen() -> None:
        with os.fdopen(read) as pipe:
            for line in pipe:
                count, now, cpu = line.split()
                marks.append((int(count), float(now), float(cpu)))

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield child.pid, marks
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@contextmanager
def in_terminal(command: list[str], environment: dict[str, str]) -> Iterator[tuple[int, list[tuple[float, bytes]]]]:
    """A command on a pseudo-terminal of 120 x 40; its pid and what it wrote, with the time of each piece."""
    began = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**environment, "TERM": "xterm-256color"})
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    pieces: list[tuple[float, bytes]] = []

    def listen() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                return
            if not data:
                return
            pieces.append((time.perf_counter() - began, data))

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield pid, pieces
    finally:
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.5)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def wait_for(pieces: list[tuple[float, bytes]], marks: tuple[bytes, ...], limit: float) -> float:
    """Seconds until one of these was written; NaN when it was not."""
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        for moment, data in list(pieces):
            if any(mark in data for mark in marks):
                return moment
        time.sleep(0.01)
    return float("nan")


def measure(
    command: list[str], environment: dict[str, str], seconds: float, frame: tuple[bytes, ...]
) -> dict[str, float]:
    """CPU share of a core after the first ten seconds, memory, seconds to the first frame."""
    with in_terminal(command, environment) as (pid, pieces):
        first = wait_for(pieces, frame, 20.0)
        time.sleep(WARM_UP)
        cpu, began = tree_cpu(pid), time.perf_counter()
        time.sleep(seconds)
        share = (tree_cpu(pid) - cpu) / (time.perf_counter() - began)
        return {"cpu": share, "memory": tree_pss(pid), "first_frame": first}


def first_verdict(pid: int, environment: dict[str, str]) -> float:
    """Seconds until a report says more than that it is still looking."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "gpudoctor", "watch", str(pid), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if not json.loads(line)["summary"]["verdict"].startswith("Looking"):
                return time.perf_counter() - began
    finally:
        child.terminate()
        child.wait()
    return float("nan")


def costs(marks: list[Mark], begin: float, end: float) -> tuple[float, float]:
    """Wall-clock and CPU seconds an iteration between two moments."""
    inside = [mark for mark in marks if begin <= mark[1] <= end]
    first, last = inside[0], inside[-1]
    count = last[0] - first[0]
    return (last[1] - first[1]) / count, (last[2] - first[2]) / count


def slowdown(pid: int, marks: list[Mark], pairs: int, window: float, watch: bool) -> list[tuple[float, float]]:
    """Ratios of wall-clock and CPU time an iteration, watched by unwatched; who comes first takes turns."""
    ratios = []
    command = [sys.executable, "-m", "gpudoctor", "watch", str(pid), "--plain"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL) if watch else None
    time.sleep(WARM_UP + 2 if watch else 1)
    try:
        for number in range(pairs):
            found = {}
            for on in (True, False) if number % 2 else (False, True):
                if child is not None:
                    child.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
                time.sleep(0.5)
                begin = time.perf_counter()
                time.sleep(window)
                found[on] = costs(marks, begin, time.perf_counter())
            ratios.append((found[True][0] / found[False][0], found[True][1] / found[False][1]))
    finally:
        if child is not None:
            child.send_signal(signal.SIGCONT)
            child.terminate()
            child.wait()
    return ratios


def fake_gpus(folder: Path, pid: int) -> dict[str, str] | None:
    """The environment of a machine with eight cards; None without a C compiler."""
    from fake_nvml import Machine, compiler, library_folder
    from fake_nvml.machine import GIB, h100

    if compiler() is None:
        return None
    answers = [*h100(8), "* UtilizationRates 0 93 40", f"0 ComputeProcesses 0 1 {pid} {39 * GIB}"]
    variables = Machine(answers=answers).build(folder / "machine")
    return {**os.environ, **variables, "LD_LIBRARY_PATH": str(library_folder(folder / "library"))}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="that CPU is measured for")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--window", type=float, default=3.0, help="seconds of each half of a pair")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name, target(Path(name), 16) as (pid, marks):
        folder = Path(name)
        environment = fake_gpus(folder, pid) or dict(os.environ)
        own = [sys.executable, "-m", "gpudoctor", "watch", str(pid)]
        rows["watch, live view"] = measure(own, environment, arguments.seconds, (b"where the loop is",))
        rows["watch --plain"] = measure([*own, "--plain"], environment, arguments.seconds, (b"cpu",))
        nvitop = shutil.which("nvitop", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if nvitop:
            rows["nvitop"] = measure([nvitop, "-m", "full"], environment, arguments.seconds, (b"GPU",))
        verdict = first_verdict(pid, environment)
        watched = slowdown(pid, marks, arguments.pairs, arguments.window, True)
        nothing = slowdown(pid, marks, arguments.pairs, arguments.window, False)
    print(f"{'':20} {'CPU of a core':>14} {'memory':>10} {'first frame':>12}")
    for title, row in rows.items():
        print(f"{title:20} {row['cpu']:>13.1%} {row['memory'] / 2**20:>6.0f} MiB {row['first_frame']:>10.2f} s")
    if not nvitop:
        print("nvitop is not installed here and left out")
    print(f"first verdict after {verdict:.1f} s")
    for title, ratios in (("watched", watched), ("nobody watching (A/A)", nothing)):
        for place, clock in enumerate(("wall clock", "CPU time")):
            values = sorted(pair[place] - 1 for pair in ratios)
            low, high = values[len(values) // 10], values[-1 - len(values) // 10]
            print(f"slowdown, {title}, {clock}: median {statistics.median(values):+.2%}, 80 % of {len(values)} "
                  f"pairs {low:+.2%} to {high:+.2%}")  # fmt: skip
    if arguments.json:
        result = {"rows": rows, "first_verdict": verdict, "watched": watched, "nothing": nothing}
        Path(arguments.json).write_text(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
