"""How fast `gpudoctor autopsy` reads the flight-recorder dumps of a large job, and what it names.

    python benchmarks/flight_recorder.py                        4,096 ranks of 2,000 entries, about 1.3 GB
    python benchmarks/flight_recorder.py --ranks 64 --stock     beside torch's own analyser, on the same dumps
    python benchmarks/flight_recorder.py --keep FOLDER --json   keeps the dumps; figures as JSON

The dumps are made as torch 2.13 writes them: one pickle a rank, frames shared, a ring that went round. The job
is tensor parallel by 8 and data parallel by the rest. One rank, chosen by the seed, does not come to a
tensor-parallel all_reduce. Its 7 peers wait there, and all others wait for these 8 in their data-parallel
groups. One dump is empty, one is cut at 87 bytes and one is missing; the stock analyser is given all of them
whole, as it reads no others.
"""

import argparse
import json
import os
import platform
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TP = 8
LAYERS = 24
"""Tensor-parallel operations of a step; after them two data-parallel ones and one of all ranks."""
STEP = LAYERS + 3
STEPS = 400
DEPTH = 24
"""Frames of a stack."""
START = 1_795_000_000_000_000_000
TIMEOUT_MS = 600_000
NAME = "nccl_trace_rank_"
DEFAULT, TENSOR, DATA = "default_pg", "tp", "dp"


class Pickle:
    """Writes what torch's pickler writes: protocol 2, texts and frames once, everything else in place."""

    def __init__(self) -> None:
        self.data = bytearray(b"\x80\x02")
        self._memo: dict[Any, int] = {}

    def known(self, value: Any) -> bytes:
        """A reference to a text or to a frame (file, line, function), which is written before if it is new."""
        if value not in self._memo:
            self.data += self._new(value)
            number = self._memo[value] = len(self._memo)
            self.data += b"q%c0" % number if number < 256 else b"r" + struct.pack("<I", number) + b"0"
        number = self._memo[value]
        return b"h%c" % number if number < 256 else b"j" + struct.pack("<I", number)

    def _new(self, value: Any) -> bytes:
        if isinstance(value, str):
            data = value.encode()
            return b"X" + struct.pack("<I", len(data)) + data
        path, line, name = value
        return b"".join(
            (
                b"}(", self.known("name"), self.known(name), self.known("filename"), self.known(path),
                self.known("line"), b"M" + struct.pack("<H", line), b"u",
            )
        )  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A job, and the rank that does not come."""

    ranks: int
    entries: int
    bad: int
    layer: int
    """The tensor-parallel operation of the last step that the rank does not enter."""

    def end(self, rank: int) -> int:
        """How many operations a rank entered."""
        if rank == self.bad:
            return (STEPS - 1) * STEP + self.layer
        if rank // TP == self.bad // TP:
            return (STEPS - 1) * STEP + self.layer + 1
        return (STEPS - 1) * STEP + LAYERS + 1


def operation(number: int) -> tuple[str, str, int]:
    """Name, group and sequence number of the operation with this number."""
    step, place = divmod(number, STEP)
    if place < LAYERS:
        return "all_reduce", TENSOR, step * LAYERS + place + 1
    if place == LAYERS:
        return "_reduce_scatter_base", DATA, 2 * step + 1
    if place == LAYERS + 1:
        return "all_gather", DATA, 2 * step + 2
    return "all_reduce", DEFAULT, step + 1


def elements(name: str, ranks: int) -> tuple[int, int]:
    """Elements that a rank gives and takes."""
    return {"_reduce_scatter_base": (ranks << 16, 1 << 16), "all_gather": (1 << 16, ranks << 16)}.get(
        name, (1 << 22, 1 << 22)
    )


def dump(job: Job, rank: int, jitter: int) -> bytes:
    """The dump of one rank."""
    pickle = Pickle()
    known = pickle.known
    tensor, data = rank // TP, rank % TP
    names = {DEFAULT: "0", TENSOR: str(1 + tensor), DATA: str(1 + job.ranks // TP + data)}
    members = {
        DEFAULT: range(job.ranks),
        TENSOR: range(tensor * TP, tensor * TP + TP),
        DATA: range(data, job.ranks, TP),
    }
    end = job.end(rank)
    first = max(0, end - job.entries)
    body: list[bytes] = []
    templates: dict[tuple[int, bool], tuple[bytes, bytes]] = {}
    for number in range(first, end):
        place, waits = number % STEP, rank != job.bad and number == end - 1
        parts = templates.get((place, waits))
        if parts is None:
            size = elements(operation(place)[0], job.ranks // TP)
            parts = templates[place, waits] = _template(known, place, names, size, waits)
        sequence = operation(number)[2]
        created = START + number * 1_000_000 + jitter
        body.append(
            b"%bJ%b%bJ%b%b\x8a\x08%b%b" % (
                parts[0], struct.pack("<i", number), known("collective_seq_id"), struct.pack("<i", sequence),
                known("time_created_ns"), struct.pack("<q", created), parts[1],
            )
        )  # fmt: skip
    config = b"".join(
        b"%b}(%b%b%b%b%b%bu" % (
            known(name), known("name"), known(name), known("desc"), known(group), known("ranks"),
            known(str(list(members[group]))),
        )
        for group, name in names.items()
    )  # fmt: skip
    value = b"}(%b%b%b}(%bu%b](%beu." % (
        known("version"), known("2.10"), known("pg_config"), config, known("entries"), b"".join(body),
    )  # fmt: skip
    return bytes(pickle.data) + value


def _template(
    known: Any, place: int, names: dict[str, str], elements: tuple[int, int], waits: bool
) -> tuple[bytes, bytes]:
    """What an operation of the step has before its numbers and behind them."""
    name, group, _ = operation(place)
    frames = [("/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py", 3245, name)]
    frames += [
        (f"/usr/lib/python3/site-packages/torch/nn/modules/m{depth}.py", 100 + depth, "forward")
        for depth in range(DEPTH - 3)
    ]
    frames += [("/job/model.py", 40 + place, "forward"), ("/job/train.py", 81, "<module>")]
    given, taken = (b"](](J%bee" % struct.pack("<i", size) for size in elements)
    types = b"](%be" % known("BFloat16")
    when = b"N" if waits else b"\x8a\x08" + struct.pack("<q", START)
    before = b"".join(
        (
            b"}(", known("frames"), b"](", *map(known, frames), b"e", known("pg_id"), b"K\x00",
            known("process_group"), known(names[group]), known(group), b"\x86",
            known("p2p_seq_id"), b"K\x00", known("is_p2p"), b"\x89",
            known("profiling_name"), known(f"nccl:{name}"), known("record_id"),
        )
    )  # fmt: skip
    after = b"".join(
        (
            known("input_sizes"), given, known("input_dtypes"), types, known("output_sizes"), taken,
            known("output_dtypes"), types, known("state"), known("started" if waits else "completed"),
            known("time_discovered_started_ns"), b"\x8a\x08" + struct.pack("<q", START),
            known("time_discovered_completed_ns"), when, known("retired"), b"\x89" if waits else b"\x88",
            known("op_id"), b"K\x01", known("timeout_ms"), b"J" + struct.pack("<i", TIMEOUT_MS), b"u",
        )
    )  # fmt: skip
    return before, after


def write(folder: Path, job: Job, seed: int) -> int:
    """Write all dumps, ten minutes after the last operation; bytes."""
    chance = random.Random(seed)
    end = START + STEPS * STEP * 1_000_000 + TIMEOUT_MS * 1_000_000
    total = 0
    for rank in range(job.ranks):
        data = dump(job, rank, chance.randrange(1_000_000))
        path = folder / f"{NAME}{rank}"
        path.write_bytes(data)
        os.utime(path, ns=(end, end))
        total += len(data)
    return total


@contextmanager
def damaged(folder: Path, job: Job) -> Iterator[list[int]]:
    """One dump empty, one cut, one missing, none of them near the bad rank's; whole again behind it."""
    others = [rank for rank in range(job.ranks) if rank // TP != job.bad // TP][:3]
    kept = {rank: (folder / f"{NAME}{rank}").read_bytes() for rank in others}
    if len(others) == 3:
        (folder / f"{NAME}{others[0]}").write_bytes(b"")
        (folder / f"{NAME}{others[1]}").write_bytes(kept[others[1]][:87])
        (folder / f"{NAME}{others[2]}").unlink()
    try:
        yield others
    finally:
        for rank, data in kept.items():
            (folder / f"{NAME}{rank}").write_bytes(data)


def measured(words: list[str], seconds: float) -> tuple[str, dict[str, float]]:
    """The output of a command; its seconds, processor seconds and the peak memory of all its processes."""
    before = os.times()
    begun = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak, over = [0], threading.Event()

    def sample() -> None:
        while not over.wait(0.1):
            peak[0] = max(peak[0], _memory(process.pid))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0]
    over.set()
    thread.join()
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return output, {
        "seconds": round(time.monotonic() - begun, 1),
        "processor_seconds": round(spent, 1),
        "peak_bytes": peak[0],
    }


def _memory(pid: int) -> int:
    """Resident bytes of a process and its children (Linux)."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total += next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(_memory(int(child)) for child in (task / "children").read_text().split())
    except (OSError, StopIteration):
        pass
    return total


def autopsy(folder: Path, job: Job) -> dict[str, Any]:
    """What `gpudoctor autopsy` says of the damaged dumps, and what it took."""
    with damaged(folder, job) as broken:
        output, figures = measured(
            [sys.executable, "-m", "gpudoctor", "autopsy", str(folder), "--format", "json"], 600.0
        )
    report = json.loads(output)
    findings = [item["message"] for item in report["findings"]]
    right = bool(findings) and findings[0].startswith(f"Rank {job.bad} did not enter all_reduce")
    problems = " ".join(map(str, report.get("problems", ())))
    named = [rank for rank in broken[:2] if f"{NAME}{rank}:" in problems]
    return {**figures, "says": findings, "right": right, "damaged_named": len(named)}


def stock(folder: Path, job: Job) -> dict[str, Any]:
    """What torch's own analyser says of the whole dumps, and what it took."""
    words = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "--prefix", NAME]
    output, figures = measured(words, 600.0)
    lines = output.splitlines()
    telling = [
        line
        for line in lines
        if line.startswith(("Not all ranks", "missing ranks", "group info", "Collective seq", "error msg"))
    ]
    missing = [line for line in lines if line.startswith("missing ranks")]
    return {
        **figures,
        "lines": len(lines),
        "says": telling[:9] or lines[-3:],
        "right": bool(missing) and missing[0] == f"missing ranks: {{{job.bad}}}",
        "collectives_without_all": len(missing),
    }


def main() -> int:
    """Make the dumps, read them, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    job = Job(arguments.ranks, arguments.entries, chance.randrange(arguments.ranks), chance.randrange(1, LAYERS))
    if job.ranks % TP:
        parser.error(f"--ranks must be a multiple of {TP}")
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="flight-"))
    folder.mkdir(parents=True, exist_ok=True)
    need = 400 * job.entries * job.ranks
    if shutil.disk_usage(folder).free < need:
        parser.error(f"{folder} has less than {need / 1e9:.1f} GB of free disk; use --keep FOLDER on another one")
    try:
        begun = time.monotonic()
        size = write(folder, job, arguments.seed)
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        result: dict[str, Any] = {
            "machine": f"{machine}, Python {platform.python_version()}",
            "ranks": job.ranks,
            "entries": job.entries,
            "bytes": size,
            "bad_rank": job.bad,
            "made_in_seconds": round(time.monotonic() - begun, 1),
            "gpudoctor": autopsy(folder, job),
        }
        if arguments.stock:
            result["fr_trace"] = stock(folder, job)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return 0
    print(f"{job.ranks:,} ranks of {job.entries:,} entries, {size / 1e9:.2f} GB; rank {job.bad} does not come.")
    for name in ("gpudoctor", "fr_trace"):
        if found := result.get(name):
            print(
                f"{name}: {found['seconds']} s ({found['processor_seconds']} s of processor), "
                f"{found['peak_bytes'] / 1e6:,.0f} MB, {'right' if found['right'] else 'not right'}"
            )
            print("\n".join(f"    {line}" for line in found["says"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
