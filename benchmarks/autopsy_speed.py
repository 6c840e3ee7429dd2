"""Speed and memory of reading a job's log: ten kinds of logs, each of which ends in one true failure.

    python benchmarks/autopsy_speed.py [KIND ...] [--mb 100] [--json FILE]
    python benchmarks/autopsy_speed.py "one line" "large file" "large pipe" --json FILE
    python benchmarks/autopsy_speed.py --mb 30 --before FOLDER --json FILE

The logs are made on the spot, the same ones each time, and read by a fresh process each. The table shows
seconds of one core, the largest resident memory, and whether the failure at the end is named. Goal: 100 MB in
under 5 s for every kind, in memory that does not grow with the log. Three logs are larger: a line of 1 GB, a
file of 2 GB and 10 GB through a pipe, none of which is kept in memory or (the last) on the disk. `--json` adds
the rows to a file, which holds those of one commit. `--before` names the checkout of an earlier version: both
read each log in turn, three times, and the fastest counts: a comparison on a machine that does other work, too.
"""

import argparse
import itertools
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_END = """\
Traceback (most recent call last):
  File "/home/ann/train.py", line 214, in <module>
    main()
  File "/home/ann/train.py", line 190, in main
    batch = collate(rows[start])
IndexError: list index out of range
"""
_READ = """
import json, resource, sys, time
from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import read_job_log
messages = tuple(load_registry().log_messages())
begun, cpu = time.perf_counter(), time.process_time()
log = read_job_log([sys.argv[1]], messages)
cause = first_cause(log)
root = cause.root if cause else None
print(json.dumps({
    "seconds": round(time.perf_counter() - begun, 2),
    "cpu_seconds": round(time.process_time() - cpu, 2),
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    "named": bool(root and root.exception == "IndexError" and root.line > log.files[0].lines - 3),
    "events": len(log.events),
}))
"""

Lines = Iterator[str]


_SYLLABLES = ("ka", "lo", "mi", "ter", "po", "su", "re", "do")


def _word(chance: random.Random) -> str:
    return "".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(1, 4)))


def _hash(chance: random.Random) -> str:
    return f"{chance.getrandbits(48):012x}"


def _step(number: int, chance: random.Random) -> str:
    loss, norm = chance.random(), chance.random()
    return f"step {number}: loss {loss:.4f} lr 1.2e-04 grad_norm {norm:.3f} tokens/s {4000 + number % 97}\n"


def progress(chance: random.Random) -> Lines:
    """A loop's lines."""
    for number in itertools.count(1):
        yield _step(number, chance)


def bars(chance: random.Random) -> Lines:
    """A progress bar on one line, between carriage returns."""
    for number in itertools.count(1):
        share, speed = number % 100, chance.random()
        rest = f"{number}/90000000 [10:02<51:10, {speed:.2f}it/s, loss={speed:.3f}]"
        yield f"\rEpoch 3: {share:3d}%|{'#' * (share // 10):10s}| {rest}"


def text(chance: random.Random) -> Lines:
    """Samples of a language model: no two lines are alike."""
    words = [_word(chance) for _ in range(30_000)]
    while True:
        yield " ".join(chance.choices(words, k=14)).capitalize() + ".\n"


def nccl(chance: random.Random) -> Lines:
    """NCCL_DEBUG=INFO of many nodes."""
    for number in itertools.count(1):
        node, pid, rank = chance.randint(1, 512), chance.randint(1000, 99999), number % 64
        address = _hash(chance)
        line = chance.choice(
            (
                f"Channel {rank:02d}/0 : {rank}[{rank % 8}] -> {rank + 1}[{rank % 7}] via P2P/CUMEM/read",
                f"Channel {rank:02d}/0 : {rank}[1] -> {rank % 60}[1] [send] via NET/IB/{rank % 8}/GDRDMA",
                f"ncclCommInitRank comm 0x{address} rank {rank} nranks 64 busId {address[:5]} - Init COMPLETE",
                f"AllReduce: opCount {number:x} sendbuff 0x{address} count {number} datatype 9 op 0 root 0 "
                f"comm 0x{_hash(chance)} [nranks=64] stream 0x{_hash(chance)}",
                f"NET/IB : Using [0]mlx5_{rank % 8}:1/IB [RO]; OOB eth0:10.0.{number % 250}.7<0>",
            )
        )
        yield f"node{node:03d}:{pid}:{pid + 7} [{number % 8}] NCCL INFO {line}\n"


def warnings(chance: random.Random) -> Lines:
    """Warnings that name a file each."""
    for number in itertools.count(1):
        yield (
            f"/opt/env/lib/python3.11/site-packages/PIL/TiffImagePlugin.py:{number % 900}: UserWarning: "
            f"Corrupt EXIF data in /data/{_word(chance)}/{_hash(chance)}.jpg. Expecting to read 4 bytes.\n"
            "  warnings.warn(str(msg))\n"
        )
        if number % 20 == 0:
            yield _step(number, chance)


def cues(chance: random.Random) -> Lines:
    """Lines that hold words of failures and mean nothing."""
    for number in itertools.count(1):
        yield (
            f"INFO loader: clip {_hash(chance)} of {_word(chance)} failed the filter "
            f"(error {chance.random():.2f}, exit {number % 7}), killed {_word(chance)}, no retry\n"
        )
        if number % 20 == 0:
            yield _step(number, chance)


def exceptions(chance: random.Random) -> Lines:
    """Exceptions that the program handles, without their tracebacks."""
    for number in itertools.count(1):
        clip = f"clip {_hash(chance)} of {_word(chance)} has {number % 31} frames"
        yield f"WARNING loader: skipped: ValueError: {clip}\n"
        if number % 5 == 0:
            yield _step(number, chance)


def tracebacks(chance: random.Random) -> Lines:
    """Tracebacks that the program logs and goes on."""
    for number in itertools.count(1):
        yield (
            "ERROR loader: cannot decode\nTraceback (most recent call last):\n"
            '  File "/home/ann/loader.py", line 88, in fetch\n    return decode(self.files[index])\n'
            '  File "/opt/env/lib/python3.11/site-packages/torchvision/io/image.py", line 273, in decode\n'
            "    output = torch.ops.image.decode_image(data, mode.value)\n"
            f"RuntimeError: clip {number} of {_word(chance)}{_word(chance)} is not a picture\n"
        )
        if number % 5 == 0:
            yield _step(number, chance)


def chains(chance: random.Random) -> Lines:
    """Chained tracebacks of downloads that are tried again."""
    for number in itertools.count(1):
        yield (
            'Traceback (most recent call last):\n  File "/home/ann/loader.py", line 41, in fetch\n'
            "    return self.session.get(url)\n"
            '  File "/opt/env/lib/python3.11/site-packages/requests/sessions.py", line 602, in get\n'
            '    return self.request("GET", url, **kwargs)\n'
            f"ConnectionResetError: [Errno 104] Connection reset by peer {_word(chance)} {number}\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "/home/ann/loader.py", line 77, in again\n'
            f"    raise FetchError(url) from error\nann.FetchError: could not fetch {_word(chance)}/{number}\n"
        )
        if number % 5 == 0:
            yield _step(number, chance)


def ranks(chance: random.Random) -> Lines:
    """Lines of 64 ranks that write into each other's."""
    for number in itertools.count(1):
        line = _step(number // 64, chance)
        if number % 3 == 0:
            line = f"[INFO] {_word(chance)}: batch of {_word(chance)} moved in {number % 91} ms\n"
        yield f"[rank{chance.randrange(64)}]: {line}"


KINDS: dict[str, Callable[[random.Random], Lines]] = {
    "progress lines": progress,
    "bars on one line": bars,
    "free text": text,
    "NCCL_DEBUG=INFO": nccl,
    "warnings": warnings,
    "words of failures": cues,
    "handled exceptions": exceptions,
    "handled tracebacks": tracebacks,
    "chained tracebacks": chains,
    "64 ranks": ranks,
}


LARGE = {"one line": 1_000, "large file": 2_000, "large pipe": 10_000}
"""Megabytes of the larger logs."""


def make(path: Path, kind: str, size: int) -> None:
    """Write a log of about so many bytes, its failure at the end."""
    left = size
    with path.open("w", encoding="utf-8") as file:
        for line in KINDS[kind](random.Random(kind)):
            file.write(line)
            left -= len(line)
            if left <= 0:
                break
        file.write(("\n" if kind.startswith("bars") else "") + _END)


def large(kind: str, size: int) -> Iterator[bytes]:
    """The pieces of a larger log: lines of a loop, again and again, or one line without an end."""
    piece = b"x" * 1_000_000
    if kind != "one line":
        lines = itertools.islice(progress(random.Random(kind)), 200_000)
        piece = "".join(lines).encode()
    for _ in range(size // len(piece)):
        yield piece
    yield ("\n" + _END if kind == "one line" else _END).encode()


def measure(kind: str, megabytes: int, folder: Path) -> dict[str, Any]:
    """What reading one log takes."""
    path = folder / "job.out"
    words = [sys.executable, "-c", _READ, "-" if kind == "large pipe" else str(path)]
    megabytes = LARGE.get(kind, megabytes)
    if kind == "large pipe":
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            for piece in large(kind, megabytes * 1_000_000):
                process.stdin.write(piece)
            process.stdin.close()
            output = process.stdout.read().decode()
    else:
        if kind in LARGE:
            with path.open("wb") as file:
                file.writelines(large(kind, megabytes * 1_000_000))
        else:
            make(path, kind, megabytes * 1_000_000)
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {"kind": kind, "megabytes": megabytes, **json.loads(output)}


def in_turn(kind: str, megabytes: int, folder: Path, before: Path) -> dict[str, Any]:
    """What reading one log takes with this version and with another one, the best of three times each."""
    path = folder / "job.out"
    make(path, kind, megabytes * 1_000_000)
    best: dict[Path, dict[str, Any]] = {}
    for version in (before, ROOT) * 3:
        words = [sys.executable, "-c", _READ, str(path)]
        packages = os.pathsep.join(str(version / part) for part in ("", "checks", "rules"))
        surroundings = {**os.environ, "PYTHONPATH": packages}
        output = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder, env=surroundings).stdout
        row = json.loads(output)
        if version not in best or row["cpu_seconds"] < best[version]["cpu_seconds"]:
            best[version] = row
    was = best[before]["cpu_seconds"]
    return {"kind": kind, "megabytes": megabytes, "before_cpu_seconds": was, **best[ROOT]}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown."""
    lines = ["| log | MB | processor seconds | peak memory | failure named |", "|---|--:|--:|--:|---|"]
    for row in rows:
        named = "yes" if row["named"] else "no"
        cells = (
            row["kind"], f"{row['megabytes']:,}", f"{row['cpu_seconds']:,.1f}", f"{row['peak_mib']} MiB", named,
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def keep(file: Path, rows: list[dict[str, Any]]) -> None:
    """Add rows to a file; those of another commit go."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    old = kept.get("rows", []) if kept.get("commit") == commit else []
    by_kind = {row["kind"]: row for row in (*old, *rows)}
    value = {
        "date": date.today().isoformat(),
        "commit": commit,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "rows": [by_kind[kind] for kind in (*KINDS, *LARGE) if kind in by_kind],
    }
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure the kinds and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    choices = [[], *KINDS, *LARGE]
    parser.add_argument("kinds", nargs="*", choices=choices, help="only these kinds", metavar="KIND")
    parser.add_argument("--mb", type=int, default=100, help="size of each log")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="a checkout to compare with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the rows to it")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.kinds or KINDS:
            if arguments.before:
                rows.append(in_turn(kind, arguments.mb, Path(folder), arguments.before.resolve()))
            else:
                rows.append(measure(kind, arguments.mb, Path(folder)))
            print(rows[-1], file=sys.stderr, flush=True)
            if arguments.json:
                keep(arguments.json, rows)
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
