"""Public profiler traces from real GPUs: what they say by this file's own arithmetic, and what gpudoctor says.

python benchmarks/traces.py --clones DIR    score; DIR/OWNER/NAME are clones, --before an earlier tree
python benchmarks/traces.py                 docs/traces.md again, from benchmarks/data/traces.json

It shares no code with the importer: it loads the whole JSON, and counts by a sweep over all begins and ends.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data" / "traces.json"
PAGE = ROOT / "docs" / "traces.md"
BEFORE = "0.1.0, 22 November 2026"
NEAR = 0.03
"""Share of the time by which gpudoctor's number may differ."""
_RUNTIME = ("runtime", "cuda_runtime", "cuda_driver", "hip_runtime")
_DEVICE = ("kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset")
_HOST = ("cpu_op", "operator")

_HEAD = """# Traces of other tools, from real GPUs

Truth beside verdict: {number} public traces of the PyTorch profiler from {projects} projects, and what
`gpudoctor report` says of them. `benchmarks/traces.py` wrote this page. It computes the truth by a sweep over
all begins and ends, and shares no code with the importer. The traces are not part of gpudoctor. Their
addresses and sums are in `benchmarks/data/traces.json`. To make this page again, clone the projects and run

    python benchmarks/traces.py --clones DIR

The projects were divided into two groups before a verdict was seen:

- **mend**: gpudoctor was improved on these traces. One trace of a held project was known before, so it is in
  this group.
- **held**: first scored when that was done (`first look`). Their faults were fixed then, so their last column
  is no longer a fresh figure.
- **fresh**: scored after that, once. They are other files of these projects, and of four more.

`before` is the version before this page ({before}). One rule judges all traces. It has become stricter since
the first look: a wait is now worth the idle time during it.

| group | traces | right before | right at the first look | right now |
|---|---:|---:|---:|---:|
"""
_RULE = """
A verdict is right if all of this holds. Else it is wrong, and the table has the reason:

- The number of steps and the idle share of the device are the truth's (shares within {near:.0f} points).
- Collectives that no kernel hides are a finding (DIST002) if they take 10 % of the time. So are copies to the
  device (DATA005).
- SYNC001 is there if the host waits in synchronising calls for 5 % of the time, with the device idle meanwhile.
- DATA001 is there if the loader takes 10 % of the time, with the device idle meanwhile.
- The device may be idle for 30 % of the time without a loader or waits that explain it. Then PERF011 or
  PERF014 is there, or the verdict says that so much is not computation.
- No finding claims more than the device is idle. SYNC001 and DATA001 claim no more than it is idle meanwhile.
  DIST002 and DATA005 claim no more than their exposed share.

The person who improved gpudoctor also wrote the rule. It tests numbers and the direction of a finding, not
the remedy. Times are of the marked steps but the first, as in a recording. If a trace has no marks, they are
of all of it. `idle` is the device's. `collectives`, `exposed` (those that no kernel hides) and `copies`
(exposed ones to the device) are shares of the time. `blocked` is the host in synchronising calls, and in
copies of 50 µs and more.

"""
_COLUMNS = (
    "card", "trace", "group", "steps", "ms", "idle", "collectives", "exposed", "copies", "blocked",
    "idle meanwhile", "loader", "launches a step", "gpudoctor: idle, findings", "judged", "before",
)  # fmt: skip
_SHARES = ("collective", "exposed", "copies", "blocked", "blocked_idle", "loader")
_TAIL = """
## What a trace cannot show

- What happens less often than once in its few steps, and memory over time.
- What loader workers and other ranks do. One rank's trace cannot tell whether a collective waits for a late
  rank or for the network.
- How well a kernel uses the card while it runs.
- The job without the profiler. Shapes and stacks slow the host, so the card looks more idle than it is.

| card | traces |
|---|--:|
{cards}
"""


def load(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document and its complete events."""
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    document = json.loads(text.decode("utf-8", "replace"), strict=False)
    events = document["traceEvents"] if isinstance(document, dict) else document
    whole = [e for e in events if isinstance(e, dict) and e.get("ph") == "X" and "ts" in e and "dur" in e]
    return (document if isinstance(document, dict) else {}), whole


def truth(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the events say."""
    work = [e for e in events if _category(e) in _DEVICE]
    cards = Counter()  # type: Counter[str]
    for event in work:
        cards[str(event.get("pid"))] += float(event["dur"])
    card = cards.most_common(1)[0][0] if cards else ""
    work = [e for e in work if str(e.get("pid")) == card]
    steps, begin, end, thread = _window(events, work)
    kinds = [(e, _kind(e)) for e in work]
    found = _sweep(kinds, begin, end)
    calls = [e for e in events if _category(e) in _RUNTIME]
    going = {
        e["args"].get("correlation"): str(e["name"])
        for e in work
        if "memcpy" in _category(e) and isinstance(e.get("args"), dict)
    }
    passes = {_thread(e) for e in events if re.match("autograd::engine", str(e.get("name")))}
    blocked = [e for e in calls if _thread(e) in {thread, *passes} and _blocks(e, going)]
    loader = [
        e for e in events if str(e.get("name")).startswith("enumerate(DataLoader)") and _thread(e) == thread
    ]
    waits = [(e, "any") for e in blocked]
    loads = [(e, "any") for e in loader]
    kernels = [(e, "work") for e in work]
    whole = end - begin
    inside = [e for e in calls if begin <= float(e["ts"]) < end]
    launches = sum(re.match("(cuda|hip|cu).*Launch", str(e["name"])) is not None for e in inside)
    return {
        "steps": steps,
        "milliseconds": round(whole / 1e3, 3),
        "device": bool(work),
        "idle": round(1 - found["any"] / whole, 4) if work else None,
        "compute": round(found["compute"] / whole, 4),
        "collective": round(found["collective"] / whole, 4),
        "exposed": round(found["exposed"] / whole, 4),
        "copies": round(found["copies"] / whole, 4),
        "blocked": round(_sweep(waits, begin, end)["any"] / whole, 4),
        "blocked_idle": round(
            _sweep([*waits, *kernels, *((e, "work") for e in loader)], begin, end)["alone"] / whole, 4
        ),
        "loader_idle": round(_sweep(loads + kernels, begin, end)["alone"] / whole, 4),
        "loader": round(_sweep(loads, begin, end)["any"] / whole, 4),
        "launches": round(launches / max(1, steps - (steps > 1))),
    }


def _category(event: dict[str, Any]) -> str:
    old = {"CPU functions": "cpu_op", "CUDA functions": "kernel"}
    return str(event.get("cat") or old.get(str(event.get("pid")))).lower()


def _thread(event: dict[str, Any]) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def _kind(event: dict[str, Any]) -> str:
    if "memcpy" in _category(event):
        name = str(event["name"])
        return "to device" if "HtoD" in name or "HostToDevice" in name else "other"
    return "collective" if re.search("nccl|rccl", str(event["name"]), re.IGNORECASE) else "compute"


def _blocks(event: dict[str, Any], going: dict[object, str]) -> bool:
    name = str(event["name"])
    if re.match("(cuda|hip|cu)(Stream|Device|Event|Ctx)Synchronize", name):
        return True
    args = event.get("args")
    copy = going.get(args.get("correlation"), "") if isinstance(args, dict) else ""
    return "Memcpy" in name and "DtoD" not in copy and float(event["dur"]) >= 50


def _window(events: list[dict[str, Any]], work: list[dict[str, Any]]) -> tuple[int, float, float, Any]:
    """Steps, begin and end of what is counted, and the thread of the training."""
    marks: dict[str, dict[str, Any]] = {}
    for event in events:
        if str(event.get("name")).startswith("ProfilerStep#") and not _category(event).startswith("gpu"):
            marks[event["name"]] = event
    longest = max((float(e["dur"]) for e in marks.values()), default=0.0)
    spans = sorted(
        (float(e["ts"]), float(e["ts"]) + float(e["dur"]), _thread(e))
        for e in marks.values()
        if float(e["dur"]) > longest / 100
    )
    last = max((float(e["ts"]) + float(e["dur"]) for e in work), default=0.0)
    if len(spans) > 1:
        return len(spans), spans[1][0], spans[-1][1], spans[0][2]
    if spans:
        return 1, spans[0][0], max(spans[0][1], last), spans[0][2]
    ends = sorted(
        (float(e["ts"]) + float(e["dur"]), _thread(e))
        for e in events
        if str(e.get("name")).startswith("Optimizer.step#") and not _category(e).startswith("gpu")
    )
    if len(ends) > 1:
        return len(ends), ends[0][0], ends[-1][0], ends[0][1]
    acts = [e for e in events if _category(e) in (*_HOST, *_RUNTIME, *_DEVICE, "user_annotation")]
    operators = Counter(_thread(e) for e in events if _category(e) in _HOST)
    return (
        1,
        min(float(e["ts"]) for e in acts),
        max(float(e["ts"]) + float(e["dur"]) for e in acts),
        operators.most_common(1)[0][0] if operators else None,
    )


def _sweep(events: list[tuple[dict[str, Any], str]], begin: float, end: float) -> Counter[str]:
    """Microseconds between two moments in which something of each kind ran."""
    edges = []
    for event, kind in events:
        first = max(float(event["ts"]), begin)
        last = min(float(event["ts"]) + float(event["dur"]), end)
        if last > first:
            edges += [(first, 1, kind), (last, -1, kind)]
    edges.sort()
    running: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    at = begin
    for moment, change, kind in edges:
        took, at = moment - at, moment
        compute, collective = running["compute"] > 0, running["collective"] > 0
        spent["any"] += took * any(running.values())
        spent["compute"] += took * compute
        spent["collective"] += took * collective
        spent["exposed"] += took * (collective and not compute)
        spent["copies"] += took * (running["to device"] > 0 and not compute and not collective)
        spent["alone"] += took * (running["any"] > 0 and not running["work"])
        running[kind] += change
    return spent


def said(path: Path, tree: Path) -> dict[str, Any]:
    """What `gpudoctor report` of a source tree says of a trace."""
    paths = ":".join(str(tree / part) for part in (".", "checks", "rules"))
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "report", str(path), "--format", "json"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}, cwd=path.parent,
    )  # fmt: skip
    if not done.stdout.strip():
        return {"error": done.stderr.strip().rpartition(": ")[2][:200] or done.stderr.strip()[:200]}
    report = json.loads(done.stdout)
    run = report["run"]
    return {
        "steps": run["steps"],
        "idle": run["device_idle"],
        "phases": {name: round(share, 4) for name, share in run["phases"].items() if share >= 0.001},
        "verdict": report["summary"]["verdict"],
        "findings": [
            {"code": item["code"], "severity": item["severity"], "share": item["cost"].get("step_share")}
            for item in report["findings"]
        ],
    }


def judge(true: dict[str, Any], told: dict[str, Any]) -> list[str]:
    """Why the verdict is wrong; nothing where it is right."""
    if "error" in told:
        return [f"no report: {told['error']}"]
    why: list[str] = []
    shares = {item["code"]: item["share"] or 0.0 for item in told["findings"]}
    if told["steps"] != true["steps"]:
        why.append(f"{told['steps']} steps instead of {true['steps']}")
    if not true["device"]:
        if told["idle"] is not None:
            why.append("an idle share without a device")
        return why
    idle = true["idle"]
    if told["idle"] is None or abs(told["idle"] - idle) > NEAR:
        why.append(f"idle {told['idle']} instead of {idle}")
    _expect(why, shares, "DIST002", true["exposed"], 0.10)
    _expect(why, shares, "DATA005", true["copies"], 0.10)
    _expect(why, shares, "SYNC001", true["blocked_idle"], 0.05, "SYNC003")
    _expect(why, shares, "DATA001", true["loader_idle"], 0.10)
    explained = true["blocked_idle"] + true["loader_idle"]
    unexplained = any(words in told["verdict"] for words in ("not computation", "no computation"))
    silent = not {"PERF011", "PERF014"} & set(shares) and not unexplained
    if idle - explained >= 0.30 and silent:
        why.append(f"idle for {idle:.0%} and nothing says why".replace("%", " %"))
    bounds = {
        "DIST002": true["exposed"], "DATA005": true["copies"], "SYNC001": true["blocked_idle"],
        "DATA001": true["loader_idle"],
    }  # fmt: skip
    for code, share in shares.items():
        if share > bounds.get(code, idle) + NEAR:
            why.append(f"{code} claims {share:.0%}".replace("%", " %"))
    return why


def _expect(
    why: list[str], shares: dict[str, float], code: str, share: float, least: float, also: str = ""
) -> None:
    if share >= least + NEAR and not {code, also} & set(shares):
        why.append(f"no {code} at {share:.0%}".replace("%", " %"))
    if share < least - NEAR and code in ("DIST002", "DATA005") and code in shares:
        why.append(f"{code} at {share:.0%}".replace("%", " %"))


def score(rows: list[dict[str, Any]], clones: Path, before: Path | None) -> None:
    """Fills truth, verdict and judgement of each row."""
    for row in rows:
        address = f"{row['commit']}:{row['path']}"
        clone = clones / row["repository"]
        data = subprocess.run(
            ["git", "--git-dir", str(clone), "cat-file", "blob", address], capture_output=True, check=True
        ).stdout
        if hashlib.sha256(data).hexdigest() != row["sha256"]:
            raise SystemExit(f"{row['repository']} {row['path']}: another file than the one that was scored")
        document, events = load(data)
        devices = [e for e in document.get("deviceProperties") or [] if isinstance(e, dict)]
        row["card"] = row.get("card") or (devices[0].get("name") if devices else None) or "not named"
        row["truth"] = truth(events)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / Path(row["path"]).name
            path.write_bytes(data)
            row["said"] = said(path, ROOT)
            if before is not None:
                row["wrong_before"] = judge(row["truth"], said(path, before))
        row["wrong"] = judge(row["truth"], row["said"])
        row.setdefault("wrong_first", row["wrong"])
        print(row["card"], row["path"][-50:], row["wrong"] or "right", flush=True)


def page(rows: list[dict[str, Any]]) -> str:
    """The page."""
    projects = len({row["repository"] for row in rows})
    text = _HEAD.format(number=len(rows), projects=projects, before=BEFORE)
    for group in ("mend", "held", "fresh"):
        mine = [row for row in rows if row["group"] == group]
        right = (sum(not row[key] for row in mine) for key in ("wrong_before", "wrong_first", "wrong"))
        earlier, first, now = right
        look = "" if group == "mend" else str(first)
        text += f"| {group} | {len(mine)} | {earlier} | {look} | {now} |\n"
    text += _RULE.format(near=NEAR * 100)
    text += f"| {' | '.join(_COLUMNS)} |\n|---|---|---|{'---:|' * 10}---|---|---|\n"
    for row in sorted(rows, key=lambda row: (row["card"], row["repository"], row["path"], row["commit"])):
        text += f"| {' | '.join(_cells(row))} |\n"
    cards = Counter(row["card"] for row in rows)
    return text + _TAIL.format(cards="\n".join(f"| {card} | {many} |" for card, many in sorted(cards.items())))


def _cells(row: dict[str, Any]) -> list[str]:
    true, told = row["truth"], row["said"]
    if "error" in told:
        first = told["error"]
    else:
        idle = "no device" if told["idle"] is None else _percent(told["idle"])
        findings = [
            f"{item['code']} {_percent(item['share'])}" for item in told["findings"][:2] if item["share"]
        ]
        first = f"{idle}, {', '.join(findings) or 'nothing'}"
    name = Path(row["path"]).name.removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace")
    return [
        row["card"], f"{row['repository'].partition('/')[2]}: {name[:40]}", row["group"], str(true["steps"]),
        f"{true['milliseconds']:,.0f}", _percent(true["idle"]) if true["device"] else "",
        *(_percent(true[key]) for key in _SHARES),
        str(true["launches"]), first, _judged(row["wrong"]), _judged(row["wrong_before"]),
    ]  # fmt: skip


def _judged(wrong: list[str]) -> str:
    return f"wrong: {'; '.join(wrong)}".replace("|", "/") if wrong else "right"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.0f} %"


def main() -> None:
    """Score, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--group", choices=("mend", "held", "fresh"))
    chosen = parser.parse_args()
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    if chosen.clones:
        score([row for row in rows if chosen.group in (None, row["group"])], chosen.clones, chosen.before)
        DATA.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if all("wrong_before" in row for row in rows):
        PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
