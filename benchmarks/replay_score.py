"""Scores `gpudoctor verify` on ailments that are not about speed: NaN by its replay, leaks by their bisection.

    python benchmarks/replay_score.py [--kind nan,leak] [--style plain,functions,classes] [--only NAME,...]
        [--shard 1/4] [--budget 5m] [--json FILE] [--keep DIR]
    python benchmarks/replay_score.py --table FILE

Every program of `benchmarks/replay/` is written into an empty folder and verified there as a user would,
without checks of the machine. Of a NaN it is judged whether operation, guilty line (marked `# sick`) and class
of cause are right; of a leak whether the guilty line, or what else holds the memory, is. `--json` appends to a
file what `--table` prints; a program that is in it already is not run again.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "replay"))
from leak_causes import LEAK_CAUSES, LeakCause
from nan_causes import NAN_CAUSES, NanCause
from skeletons import STYLES, fill

MARK = "# sick"
DATA = Path(__file__).parent / "data" / "replay-score.json"


def verify(
    cause: NanCause | LeakCause, style: str, folder: Path, budget: str
) -> tuple[dict[str, Any], float, str]:
    """The JSON report of one program, seconds, and what went wrong."""
    text = fill(style, cause.places)
    (folder / "train.py").write_text(text, encoding="utf-8")
    ranks = getattr(cause, "ranks", 1)
    launch = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    out = folder / "report.json"
    words = [
        sys.executable, "-m", "gpudoctor", "verify", "--quiet", "--select", "NUM,MEM", "--budget", budget,
        "--format", "json", "--output", str(out),
    ]  # fmt: skip
    began = time.monotonic()
    state = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [*words, "--", sys.executable, *launch, "train.py"], cwd=folder, env=state, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - began
    if not out.is_file():
        return {}, seconds, done.stderr.strip()[-300:]
    return json.loads(out.read_text(encoding="utf-8")), seconds, ""


def judge(cause: NanCause | LeakCause, report: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What was right."""
    lines = (folder / "train.py").read_text(encoding="utf-8").splitlines()
    guilty = [number for number, line in enumerate(lines, 1) if MARK in line]
    found: dict[str, Any] = {
        "findings": [item["code"] for item in report.get("findings", [])],
        "cured": [
            row["name"] for row in (report.get("trial") or {}).get("rows", []) if row["conclusion"] == "cured"
        ],
    }
    trial = report.get("trial") or {}
    return found | (_nan(cause, trial, guilty) if isinstance(cause, NanCause) else _leak(cause, trial, guilty))


def _nan(cause: NanCause, trial: dict[str, Any], guilty: list[int]) -> dict[str, Any]:
    replay = trial.get("replay") or {}
    place = (replay.get("place") or {}).get("line")
    return {
        "said": replay.get("words") or replay.get("reason"),
        "seen": bool(replay.get("reproduced")),
        "operation": not cause.operations or replay.get("operation") in cause.operations,
        "line": not guilty or place in guilty,
        "cause": replay.get("cause") in cause.causes,
        "phase": cause.phase in ("any", replay.get("phase")),
        "class": replay.get("cause"),
        "named": replay.get("operation"),
    }


def _leak(cause: LeakCause, trial: dict[str, Any], guilty: list[int]) -> dict[str, Any]:
    leak = trial.get("leak") or {}
    place, holder = (leak.get("place") or {}).get("line"), leak.get("holder") or ""
    return {
        "said": leak.get("words"),
        "seen": bool(leak),
        "line": place in guilty if cause.line else holder.startswith(cause.holders),
        "keep": not cause.keeps or leak.get("keep") in cause.keeps,
        "bytes_per_step": leak.get("bytes_per_step"),
        "named": f"{holder} ({leak.get('keep')})" if leak.get("keep") else holder,
        "runs": len(leak.get("tries") or ()),
    }


def programs(arguments: argparse.Namespace) -> Iterator[tuple[NanCause | LeakCause, str]]:
    """What was asked for."""
    kinds = {"nan": NAN_CAUSES, "leak": LEAK_CAUSES}
    for kind in arguments.kind.split(","):
        for cause in kinds[kind]:
            for style in arguments.style.split(","):
                if style in cause.styles and (not arguments.only or cause.name in arguments.only.split(",")):
                    yield cause, style


def machine() -> dict[str, Any]:
    """Where it was measured."""
    torch = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        model = next((line.partition(":")[2].strip() for line in stream if line.startswith("model name")), "?")
    return {
        "cpu": model, "cpus": os.cpu_count(), "gpu": None, "system": platform.system(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "python": platform.python_version(), "torch": torch, "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Two tables in Markdown: NaN and leaks; a cell a style."""
    parts = []
    for title, kind, keys in (
        ("NaN: operation, line, class right", "nan", ("operation", "line", "cause")),
        ("Leaks: line or holder, change right", "leak", ("line", "keep")),
    ):
        of = [row for row in rows.values() if row["kind"] == kind]
        names = dict.fromkeys(row["name"] for row in of)
        lines = [f"| {title} | " + " | ".join(STYLES) + " | said |", "|---|" + "---|" * (len(STYLES) + 1)]
        for name in names:
            cells = []
            for style in STYLES:
                row = next((row for row in of if row["name"] == name and row["style"] == style), None)
                cells.append("" if row is None else "".join("x" if row[key] else "-" for key in keys))
            first = next(row for row in of if row["name"] == name)
            said = f"{first['named']}, {first['class']}" if kind == "nan" else first["named"]
            lines.append(f"| {name} | " + " | ".join(cells) + f" | {said} |")
        right = [all(row[key] for key in keys) for row in of]
        lines.append(f"| right | {sum(right)} of {len(right)} |" + " |" * len(STYLES))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="nan,leak")
    parser.add_argument("--style", default=",".join(STYLES))
    parser.add_argument("--only", default="")
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="leave programs and reports in this folder")
    parser.add_argument("--table", type=Path, nargs="?", const=DATA, help="print the tables of a file")
    arguments = parser.parse_args()
    if arguments.table:
        stored = json.loads(arguments.table.read_text(encoding="utf-8"))
        print(" · ".join(f"{key} {value}" for key, value in stored["machine"].items()))
        print("\n" + table(stored["programs"]))
        return
    stored = {"machine": machine(), "programs": {}}
    if arguments.json and arguments.json.is_file():
        stored = json.loads(arguments.json.read_text(encoding="utf-8"))
    part, _, of = arguments.shard.partition("/")
    for number, (cause, style) in enumerate(programs(arguments)):
        key = f"{cause.name}/{style}"
        if number % int(of) != int(part) - 1 or key in stored["programs"]:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = arguments.keep / key.replace("/", "-") if arguments.keep else Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            report, seconds, problem = verify(cause, style, folder, arguments.budget)
            row = judge(cause, report, folder)
        kind = "nan" if isinstance(cause, NanCause) else "leak"
        row = {
            "name": cause.name, "style": style, "kind": kind, "budget": arguments.budget,
            "seconds": round(seconds, 1), **row,
        }  # fmt: skip
        if problem:
            row["problem"] = problem
        stored["programs"][key] = row
        marks = " ".join(
            f"{name}={row[name]}" for name in ("seen", "operation", "line", "cause", "keep") if name in row
        )
        print(f"{key:40} {seconds:6.1f} s  {marks}  {row['said']}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    if not arguments.json:
        print("\n" + table(stored["programs"]))


if __name__ == "__main__":
    main()
