"""Real torchrun and gloo jobs that die, their merged logs, and what killed them.

    python benchmarks/dying_jobs.py FOLDER [--only NAME ...] [--how tee folder plain]
    python benchmarks/dying_jobs.py FOLDER --score

`FOLDER/NAME.HOW.log` is what the job left behind (`folder` leaves a folder), `FOLDER/truth.json` what happened:
the code, the rank and the cause. The launchers: `tee` is `torchrun --tee 3`, `plain` is torchrun with one pipe
for all, `folder` is `torchrun --log-dir --redirects 3`. All ranks are processes that train together over gloo on
the CPU. `--score` asks `gpudoctor autopsy` for the first cause of each log and compares.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent / "dying"
ROWS, LENGTH = 160, 16
LIMIT = 90.0
"""Seconds after which a job that should be dead is ended, and counted as not produced."""


@dataclass(frozen=True)
class Death:
    """One way to die. `code` is the ailment that names the first cause; None is a healthy job."""

    name: str
    code: str | None
    what: str
    script: str = "job"
    one_rank: bool = True
    options: tuple[str, ...] = ()
    spoil: Callable[["Stage"], None] | None = None
    meddle: Callable[["Stage"], bool] | None = None
    surroundings: Callable[["Stage"], contextlib.AbstractContextManager[None]] | None = None
    also: tuple[str, ...] = field(default=())
    """Codes that name the same cause as well."""
    at: int = 0
    """The step in which it happens; 0 for a random one."""


@dataclass
class Stage:
    """One job on its way: where it is, who is to die, and its processes."""

    death: Death
    how: str
    folder: Path
    ranks: int
    victim: int
    at: int
    port: int
    job: "subprocess.Popen[bytes] | None" = None
    log: Path | None = None
    torchrun_options: list[str] = field(default_factory=list)
    prelude: list[str] = field(default_factory=list)

    def where(self, rank: int) -> tuple[int, int]:
        """The process id and the last step of a rank; zeros before its first step."""
        try:
            pid, step = (self.folder / "pids" / str(rank)).read_text().split()
            return int(pid), int(step)
        except (OSError, ValueError):
            return 0, 0


def kill_rank(stage: Stage) -> bool:
    pid, step = stage.where(stage.victim)
    if step < stage.at:
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def kill_worker(stage: Stage) -> bool:
    if stage.where(stage.victim)[1] < stage.at:
        return False
    os.kill(int((stage.folder / "workers" / str(stage.victim)).read_text()), signal.SIGKILL)
    return True


def cancel(stage: Stage) -> bool:
    """As Slurm ends a job at its time limit: its line in the job's file, SIGTERM to the job's processes."""
    assert stage.job is not None
    if stage.where(0)[1] < stage.at:
        return False
    if stage.log is not None:
        with open(stage.log, "ab") as file:
            now = time.strftime("%Y-%m-%dT%H:%M:%S")
            line = f"slurmstepd: error: *** JOB 4711 ON node001 CANCELLED AT {now} DUE TO TIME LIMIT ***\n"
            file.write(line.encode())
    stage.job.send_signal(signal.SIGTERM)
    return True


def lose_shard(stage: Stage) -> None:
    (stage.folder / "shards" / f"train-{stage.victim:05d}.bin").unlink()


def shorten_shard(stage: Stage) -> None:
    path = stage.folder / "shards" / f"train-{stage.victim:05d}.bin"
    path.write_bytes(path.read_bytes()[: stage.at * 4 * LENGTH])


def small_disk(stage: Stage) -> None:
    """The checkpoints' folder is a small file system: a tmpfs in a namespace of mounts of the job's own."""
    target = stage.folder / "checkpoints"
    line = f'mount -t tmpfs -o size=96k tmpfs "{target}" && exec "$@"'
    stage.prelude = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", line, "sh"]


def no_node(stage: Stage) -> None:
    stage.torchrun_options = ["--nnodes", "2", "--node-rank", "0", "--rdzv-conf", "timeout=15,read_timeout=15"]


@contextlib.contextmanager
def port_taken(stage: Stage) -> Iterator[None]:
    with socket.create_server(("", stage.port)):
        yield


SHORT = ("--timeout", "12")
"""Seconds of patience of a collective, where the death is a wait."""

DEATHS = (
    Death("exception", "FAIL001", "RecordError of the script's own", "exception"),
    Death("killed", "FAIL002", "SIGKILL from outside", meddle=kill_rank),
    Death("hang", "FAIL004", "waits for a lock; the others time out", "hang", options=SHORT),
    Death("memory_limit", "FAIL001", "torch is refused memory (RLIMIT_AS)", "memory_limit", also=("ENV009",)),
    Death("memory_limit_python", "FAIL001", "MemoryError (RLIMIT_AS)", "memory_limit_python", also=("ENV009",)),
    Death("loader_worker", "DATA010", "a DataLoader worker is killed", "loader_worker", meddle=kill_worker),
    Death("mismatch_shape", "FAIL004", "all-reduces another shape", "mismatch_shape", options=SHORT),
    Death("mismatch_order", "FAIL004", "calls another collective", "mismatch_order", options=SHORT),
    Death("disk_full", "ENV011", "no space left at a checkpoint of rank 0", spoil=small_disk),
    Death("segfault", "FAIL006", "a segmentation fault in native code", "segfault"),
    Death("port_taken", "FAIL007", "the port is in use", one_rank=False, surroundings=port_taken),
    Death("node_missing", "FAIL007", "a node does not come", one_rank=False, spoil=no_node, options=SHORT),
    Death("missing_file", "FAIL016", "the shard of one rank is not there", spoil=lose_shard),
    Death("nan_loss", "NUM002", "the loss is NaN and the script stops itself", "nan_loss"),
    Death("label_range", "FAIL001", "IndexError: a label out of range", "label_range", also=("FAIL003",)),
    Death("time_limit", "FAIL002", "Slurm's time limit: SIGTERM", one_rank=False, meddle=cancel),
    Death("uneven_data", "FAIL004", "one rank ends early", "uneven_data", spoil=shorten_shard, options=SHORT),
    Death("checkpoint_misfit", "FAIL014", "a checkpoint of another width", "checkpoint_misfit", one_rank=False),
    Death("healthy", None, "ends well", one_rank=False),
    Death("handled", None, "a handled traceback, ends well", "handled"),
)  # fmt: skip


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def furnish(stage: Stage, seed: int) -> None:
    """The script, the shards, and the folders of the job."""
    for name in ("shards", "pids", "workers", "checkpoints"):
        (stage.folder / name).mkdir(parents=True)
    for rank in range(stage.ranks * 2):
        path = stage.folder / "shards" / f"train-{rank:05d}.bin"
        path.write_bytes(random.Random(seed * 1000 + rank).randbytes(ROWS * LENGTH))
    shutil.copy(HERE / "job.py", stage.folder / "job.py")
    shutil.copy(HERE / f"{stage.death.script}.py", stage.folder / "train.py")  # a log must not tell by a file's name
    if stage.death.spoil is not None:
        stage.death.spoil(stage)


def command(stage: Stage, logs: Path) -> list[str]:
    death = stage.death
    script = str(stage.folder / "train.py")
    arguments = [str(stage.folder), "--at", str(stage.at), *death.options]
    arguments += ["--victim", str(stage.victim)] if death.one_rank else []
    streams = {
        "tee": ["--log-dir", str(stage.folder / "torchrun"), "--tee", "3"],
        "folder": ["--log-dir", str(logs), "--redirects", "3"],
        "plain": [],
    }[stage.how]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(stage.ranks)]
    address = ["--master-addr", "127.0.0.1", "--master-port", str(stage.port)]
    return [*stage.prelude, *torchrun, *address, *stage.torchrun_options, *streams, script, *arguments]


def end(job: "subprocess.Popen[bytes]") -> None:
    """Ends the job: torchrun ends its ranks, which have groups of their own; then the job's own group."""
    if job.poll() is None:
        job.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(timeout=40)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def run(stage: Stage, out: Path) -> int | None:
    """Runs the job to its end and leaves its log in `out`; None when it had to be ended."""
    log = out / f"{stage.death.name}.{stage.how}.log"
    logs = out / f"{stage.death.name}.{stage.how}"
    shutil.rmtree(logs, ignore_errors=True)
    if stage.how == "folder":
        logs.mkdir()
        log = logs / "launcher.log"
    log.write_bytes(b"")
    stage.log = log
    surroundings = stage.death.surroundings or (lambda _: contextlib.nullcontext())
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "MASTER_PORT": str(stage.port)}
    with open(log, "ab") as stream, surroundings(stage):
        stage.job = subprocess.Popen(
            command(stage, logs), stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
        deadline, meddled = time.monotonic() + LIMIT, stage.death.meddle is None
        while stage.job.poll() is None and time.monotonic() < deadline:
            if not meddled and stage.death.meddle is not None:
                meddled = stage.death.meddle(stage)
            time.sleep(0.05)
        status = stage.job.poll()
        end(stage.job)
    return status


def produce(death: Death, how: str, ranks: int, seed: int, out: Path) -> dict[str, object]:
    """One log and its truth."""
    chance = random.Random(f"{seed} {death.name} {how}")
    victim = 0 if death.name == "disk_full" else chance.randrange(1, ranks)
    with tempfile.TemporaryDirectory(prefix="job-") as folder:
        at = death.at or chance.randrange(11, 20)
        stage = Stage(death, how, Path(folder), ranks, victim, at, free_port())
        furnish(stage, seed)
        begin = time.monotonic()
        status = run(stage, out)
    named = victim if death.one_rank or death.name == "disk_full" else None
    log = f"{death.name}.{how}" + ("" if how == "folder" else ".log")
    return {
        "log": log, "death": death.name, "how": how, "ranks": ranks, "code": death.code,
        "also": list(death.also), "rank": named, "step": stage.at, "what": death.what, "exit": status,
        "seconds": round(time.monotonic() - begin, 1),
    }  # fmt: skip


def verdict_of(log: Path) -> tuple[str | None, int | None]:
    """The code that `gpudoctor autopsy` names first, and the rank that it says failed first."""
    from gpudoctor.cli import main as gpudoctor

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        gpudoctor(["autopsy", "--format", "json", str(log)])
    try:
        report = json.loads(said.getvalue())
    except ValueError:
        return f"no report: {said.getvalue().strip()[-80:]}", None
    rank = report["log"]["rank"] if report["log"] else None
    code = report["findings"][0]["code"] if report["findings"] else None
    return code, rank


def score(folder: Path) -> int:
    """Prints what autopsy names for each log of a folder; 1 when a first cause is missed."""
    rows = []
    for row in json.loads((folder / "truth.json").read_text()):
        code, rank = verdict_of(folder / row["log"])
        right = code in (row["code"], *row["also"])
        rows.append(
            {
                "log": row["log"], "code": row["code"], "rank": row["rank"],
                "said": code, "said_rank": rank, "right": right,
            }
        )  # fmt: skip
        mark = "ok  " if right else "MISS"
        print(f"{mark} {row['log']:32} {row['code']} rank {row['rank']}: {code} rank {rank}", flush=True)
    dead = [row for row in rows if row["code"] is not None]
    ranked = [row for row in dead if row["rank"] is not None]
    named = sum(row["right"] and row["said_rank"] == row["rank"] for row in ranked)
    quiet = [row["said"] is None for row in rows if row["code"] is None]
    print(f"first cause named: {sum(row['right'] for row in dead)} of {len(dead)}; its rank: "
          f"{named} of {len(ranked)}; silent on healthy jobs: {sum(quiet)} of {len(quiet)}")  # fmt: skip
    return int(not all(row["right"] for row in rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=[death.name for death in DEATHS])
    parser.add_argument("--how", nargs="+", default=["tee", "plain", "folder"])
    parser.add_argument("--ranks", type=int, default=4, help="of a torchrun job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--score", action="store_true", help="produce nothing, score the folder's logs")
    options = parser.parse_args()
    if options.score:
        return score(options.folder)
    options.folder.mkdir(parents=True, exist_ok=True)
    truth = options.folder / "truth.json"
    rows = json.loads(truth.read_text()) if truth.exists() else []
    jobs = [(how, death) for how in options.how for death in DEATHS]
    for how, death in jobs:
        if not options.only or death.name in options.only:
            row = produce(death, how, options.ranks, options.seed, options.folder)
            rows = [old for old in rows if old["log"] != row["log"]] + [row]
            truth.write_text(json.dumps(sorted(rows, key=lambda row: str(row["log"])), indent=1) + "\n")
            print(f"{row['log']:32} exit {row['exit']}  {row['seconds']} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
