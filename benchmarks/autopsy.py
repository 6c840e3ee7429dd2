"""How often `gpudoctor autopsy` names the first cause: scored on logs whose cause is settled.

    python benchmarks/autopsy.py              the composed logs, which are here
    python benchmarks/autopsy.py FOLDER       ID.log and labels.jsonl (id, code, kind, line, also)

`code` is `none` for a healthy log, `unclear` if nobody settled the cause.
`benchmarks/data/composed-logs.tar.xz` holds logs that nobody's job wrote, with their causes and lines: four writers
composed them after the forms of real tools. All were seen. Each text is examined as the command does it.
What counts is its first finding that is more than a note.
"""

import argparse
import contextlib
import json
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.errors import DoctorError
from gpudoctor.model import Confidence, Finding, LogLine, Severity
from gpudoctor.vitals.build_log_patient import admit_log, sort_left_behind

COMPOSED = Path(__file__).parent / "data" / "composed-logs.tar.xz"
ALSO_RIGHT = {
    ("FAIL008", "shm"): ("ENV006",),
    ("FAIL008", "socket"): ("FAIL007",),
    ("ENV013", "duplicate-gpu"): ("FAIL008",),
    ("FAIL002", "host-oom"): ("ENV009", "DATA010"),
    ("FAIL006", "segfault"): ("DATA010",),
    ("FAIL005", ""): ("ENV006",),
    ("FAIL003", "label-range"): ("FAIL001",),
    ("CFG009", "unrecognized"): ("CFG010",),
    ("CFG009", "argument"): ("CFG010",),
}
"""Codes that say the same of a kind of failure as the label: NCCL's /dev/shm is /dev/shm; a killed worker."""
STARTS = frozenset(
    {"admission", "container", "job-script", "launch", "no-command", "program", "sandbox", "scheduler", "shell",
     "slurm-config", "start-error", "unschedulable", "volume"}
)  # fmt: skip
"""Kinds of starts that failed: FAIL020 has their page since 2026-11-28; older labels have others."""
NEAR = 5
"""Lines within which another line of the same traceback or message is."""
NOTHING = ("none", "FAIL018", "FAIL019")


def request_for_logs() -> Request:
    """Every check, with the settings of a machine without any."""
    registry = load_registry()
    return Request(registry=registry, selection=make_selection(registry, [], []))


def first_finding(path: Path, request: Request) -> Finding | None:
    """The first finding of the command on a log that is more than a note. Raises `DoctorError` for no text."""
    patient = admit_log(sort_left_behind([str(path)]), request.registry.log_messages())
    findings = (item.finding for item in examine(patient, request).findings)
    return next((item for item in findings if item.severity is not Severity.NOTE), None)


def judged(entry: dict[str, Any], said: str, *, sure: bool) -> str:
    """`right`, `silent` (no cause named), `hedged` (a wrong one, as probable or suspected), or `wrong`."""
    label = entry["code"]
    if label == "none":
        return "right" if said == "none" else "wrong"
    if label == "unclear":
        return "wrong" if sure and said not in ("none", "FAIL018") else "right"
    also = (label, *entry.get("also", ()), *ALSO_RIGHT.get((label, entry["kind"]), ()))
    if said in also or (said == "FAIL020" and entry["kind"] in STARTS):
        return "right"
    return "silent" if said in NOTHING else "wrong" if sure else "hedged"


def verdict(entry: dict[str, Any], path: Path, request: Request) -> dict[str, Any]:
    """What the command says first of a text, beside what is settled."""
    first = None
    with contextlib.suppress(DoctorError):
        first = first_finding(path, request)
    said = first.code if first is not None else "none"
    sure = first is not None and first.confidence is Confidence.CONFIRMED
    line = next((item.line for item in first.evidence if isinstance(item, LogLine)), None) if first else None
    near = line is not None and "line" in entry and abs(line - entry["line"]) <= NEAR
    return {"id": entry["id"], "code": entry["code"], "kind": entry["kind"], "said": said, "near": near,
            "result": judged(entry, said, sure=sure)}  # fmt: skip


def score(folder: Path) -> None:
    """Print what is not right, and a line for each kind of log."""
    entries = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    request = request_for_logs()
    rows = [verdict(entry, folder / f"{entry['id']}.log", request) for entry in entries]
    for row in rows:
        if row["result"] != "right":
            print(row)
    groups = {
        "died": [row for row in rows if row["code"] not in ("none", "unclear")],
        "healthy": [row for row in rows if row["code"] == "none"],
        "unsettled": [row for row in rows if row["code"] == "unclear"],
    }
    for name, group in groups.items():
        near = sum(row["near"] for row in group if row["result"] == "right")
        print(f"{name:10} {len(group):5}", dict(Counter(row["result"] for row in group)), f"right line: {near}")


def main() -> int:
    """Score a folder, or the composed logs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="logs and labels.jsonl (default: composed ones)")
    folder = parser.parse_args().folder
    if folder is not None:
        score(folder)
        return 0
    with tarfile.open(COMPOSED) as archive, tempfile.TemporaryDirectory() as scratch:
        archive.extractall(scratch, filter="data")
        score(Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
