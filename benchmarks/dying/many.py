"""Starts many ranks of a script from one process that has imported torch: a small machine carries 64 of them.

    python benchmarks/dying/many.py --ranks 64 exception.py FOLDER --victim 2

The ranks are real gloo ranks that meet over TCP; only the import is shared. Stands in for `srun`: every line
gets `srun --label`'s prefix, and a rank that ends badly is told of in srun's words before the others are
stopped.
"""

import argparse
import os
import re
import runpy
import selectors
import signal
import sys
import time
from pathlib import Path

# also what DDP imports when it is first used: 64 times over, that takes minutes
import torch
import torch._dynamo
import torch.distributed.fsdp
import torch.distributed.tensor
import tqdm  # noqa: F401

STEP = "4711.0"
NODE = "node001"
GRACE = 6.0
"""Seconds between the first bad end and the signal to the others: `srun --kill-on-bad-exit` gives them some."""


def child(rank: int, ranks: int, port: int, script: str, arguments: list[str], pipe: int) -> None:
    os.dup2(pipe, 1)
    os.dup2(pipe, 2)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    try:
        runpy.run_path(script, run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 -- as the interpreter would print it, without this file's frames
        frame = error.__traceback__
        while frame is not None and frame.tb_frame.f_code.co_filename != script:
            frame = frame.tb_next
        sys.excepthook(type(error), error, frame)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Labels:
    """Writes whole lines of many ranks, each with its label, as they come."""

    def __init__(self, ranks: int, style: str) -> None:
        self.width = len(str(ranks - 1))
        self.style = style
        self.rest: dict[int, bytes] = {}

    def take(self, rank: int, data: bytes) -> None:
        *lines, self.rest[rank] = re.split(rb"(?<=\n)", self.rest.get(rank, b"") + data)
        self.write(rank, lines)

    def end(self, rank: int) -> None:
        last = self.rest.pop(rank, b"")
        if last:
            self.write(rank, [last + b"\n"])

    def write(self, rank: int, lines: list[bytes]) -> None:
        for line in lines:
            if line:
                sys.stdout.buffer.write(self.label(rank).encode() + line)
        sys.stdout.buffer.flush()

    def label(self, rank: int) -> str:
        return {"srun": f"{rank:{self.width}d}: ", "mpi": f"[1,{rank}]<stdout>:", "none": ""}[self.style]


def told(rank: int, pid: int, status: int, oom: bool, style: str) -> str:
    """What the launcher prints of a task that ended badly."""
    if style == "mpi":
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            ended = f"exited on signal {number} ({signal.strsignal(number)})"
            return f"mpirun noticed that process rank {rank} with PID {pid} on node {NODE} {ended}."
        return (
            "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
            "the job to be terminated. The first process to do so was:\n\n"
            f"  Process name: [[{pid},1],{rank}]\n  Exit code:    {os.WEXITSTATUS(status)}"
        )
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        words = {signal.SIGKILL: "Killed", signal.SIGSEGV: "Segmentation fault", signal.SIGTERM: "Terminated"}
        what = words.get(signal.Signals(number), signal.strsignal(number))
        core = " (core dumped)" if number == signal.SIGSEGV else ""
        before = ""
        if oom and number == signal.SIGKILL:
            what = "Out Of Memory"
            before = (
                f"slurmstepd: error: Detected 1 oom_kill event in StepId={STEP}. "
                "Some of the step tasks have been OOM Killed.\n"
            )
        return f"{before}srun: error: {NODE}: task {rank}: {what}{core}"
    return f"srun: error: {NODE}: task {rank}: Exited with exit code {os.WEXITSTATUS(status)}"


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--missing", type=int, default=-1, help="a rank that is not started")
    parser.add_argument("--labels", choices=["srun", "mpi", "none"], default="srun")
    parser.add_argument("--port", type=int, default=29511)
    parser.add_argument("--cancel", help="a file: when it is there, the job is cancelled for its time limit")
    parser.add_argument("--oom", action="store_true", help="a kill is told of as Slurm tells of the OOM killer's")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    labels, selector, alive = Labels(options.ranks, options.labels), selectors.DefaultSelector(), {}
    for rank in range(options.ranks):
        if rank == options.missing:
            continue
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            child(rank, options.ranks, options.port, options.script, options.arguments, writer)
        os.close(writer)
        alive[pid] = rank
        selector.register(reader, selectors.EVENT_READ, rank)
    worst, failed_at, stopped, killed = 0, None, False, False
    while selector.get_map():
        for key, _ in selector.select(0.05):
            data = os.read(key.fd, 65536)
            if data:
                labels.take(key.data, data)
            else:
                labels.end(key.data)
                selector.unregister(key.fd)
                os.close(key.fd)
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            rank = alive.pop(pid)
            if status:
                worst = max(worst, 1)
                if options.labels == "srun" or (options.labels == "mpi" and failed_at is None):
                    print(told(rank, pid, status, options.oom, options.labels), flush=True)
                failed_at = failed_at or time.monotonic()
        if options.cancel and Path(options.cancel).exists() and not stopped:
            print(
                f"slurmstepd: error: *** STEP {STEP} ON {NODE} CANCELLED AT {stamp()} DUE TO TIME LIMIT ***\n"
                "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
                flush=True,
            )
            stopped, failed_at = True, time.monotonic() - GRACE
            for pid in alive:
                os.kill(pid, signal.SIGTERM)
        if failed_at and not stopped and time.monotonic() - failed_at > GRACE and alive:
            stopped = True
            if options.labels == "srun":
                print("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", flush=True)
                print(f"slurmstepd: error: *** STEP {STEP} ON {NODE} CANCELLED AT {stamp()} ***", flush=True)
            for pid in alive:
                os.kill(pid, signal.SIGTERM)
        if failed_at and stopped and not killed and time.monotonic() - failed_at > GRACE + 10 and alive:
            killed = True
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
    for pid, rank in alive.items():  # their pipes closed before they could be waited for
        _, status = os.waitpid(pid, 0)
        if status:
            worst = max(worst, 1)
            if options.labels == "srun":
                print(told(rank, pid, status, options.oom, options.labels), flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
