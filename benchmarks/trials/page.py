"""docs/trials.md, from the data that the programs beside it have measured.

    python benchmarks/trials/page.py            write the page

The data: `verify-patients.json` (verify_patients.py), `trial-null.json` and `trial-noise.csv` (trial_null.py),
`verify-overhead.json` (verify_overhead.py). What was not measured yet is left out.
"""

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = ROOT / "benchmarks" / "data"
PAGE = ROOT / "docs" / "trials.md"
_HEAD = """# The trials, tried

`gpudoctor verify` claims to prove remedies. This page tests that claim: on programs that are sick on purpose,
on identical commands, and on its own cost. A program in [`benchmarks`](../benchmarks) makes every figure on
this page. The data are in [`benchmarks/data`](../benchmarks/data). `python benchmarks/trials/page.py` makes
the page.
"""
_PATIENTS = """## Sick programs, cured

The set is in [`benchmarks/trials/patients`](../benchmarks/trials/patients): {count} programs, each slow in
one way. Each has a well twin that does the same work in good order. Each is copied into an empty folder and
gets one call, `gpudoctor verify --keep -- python patient.py`. *Cured* means all of this:

- The first finding names the cause.
- A remedy of it is proven: its interval is clear of 1.02, and the loss is unmoved.
- `--keep` has written it into the program, and `gpudoctor run` names the cause there at most in a note.
- A step of the mended program takes at most 15 % longer than the well twin's (*ratio*).

The ratio is the median of {pairs} pairs of runs, one right after the other. The programs time themselves.

**{cured} of {count} cured**. Measured on {date} with Python {python}, {versions}. The machine has
{machine}.{remark}
"""
_AGAIN = """Again: `python benchmarks/verify_patients.py --rival PYTHON` (about {minutes:.0f} minutes). PYTHON
is an interpreter beside which train-doctor is installed. `--only NAME` runs one of them. Other flags are
`--pairs` and `--budget`.
"""
_RIVAL = """## Side by side with `train-doctor fix`

The same programs, each in a folder of its own. `train-doctor fix --keep` has its defaults: five pairs a
change, four changes at most. Its words are read generously. Any of its findings or suggestions that could
mean the cause counts. It says of almost every program that `torch.compile` might help: that does not count.
*Mended* is its own patch, timed beside the well twin as above.
"""
_NULL = """## Identical commands, and ones that are a little faster

The table shows how often a trial says *faster* of a command against itself. It also shows how often a trial
finds a command that is 5 % or 10 % faster. A row is {trials} simulated trials, by the code that `verify` runs
(pairs, stalls set aside, looks, intervals).

*Measured* takes its windows from [`trial-noise.csv`](../benchmarks/data/trial-noise.csv): {windows}. The
machinery of `verify` recorded them.{spread} A trial stops at 16 pairs; *unclear* is what it says then.
"""
_NULL_AGAIN = """
Again: `python benchmarks/trial_null.py --json benchmarks/data/trial-null.json`; new noise:
`python benchmarks/trial_null.py --record-noise benchmarks/data/trial-noise.csv -- python train.py`.
"""
_OVERHEAD = """## What a trial costs beside the training

Whole calls of `verify` were timed. The program's own time is subtracted: its steps, and its start until the
first step, measured without us. What is left is ours, in seconds a run: before the first step, after the
last, and beside the runs. Beside the runs are diagnosis, reading, statistics and report. The goal is {goal:g}
s a run.{remark}
"""
_OVERHEAD_AGAIN = """
Again: `python benchmarks/verify_overhead.py --json benchmarks/data/verify-overhead.json`.
"""


def page() -> str:
    """The page, as Markdown."""
    parts = [_HEAD]
    for name, make in (("verify-patients", patients), ("trial-null", null), ("verify-overhead", overhead)):
        path = DATA / f"{name}.json"
        if path.exists():
            parts.append(make(json.loads(path.read_text(encoding="utf-8"))))
    return "\n".join(part.rstrip() + "\n" for part in parts)


def patients(data: dict[str, Any]) -> str:
    """Ours, then both side by side."""
    ours, theirs, how = data["gpudoctor"], data["train-doctor"], data["how"]
    versions = ", ".join(f"{name} {number}" for name, number in how["versions"].items())
    text = _PATIENTS.format(
        count=len(ours), cured=sum(item["cured"] for item in ours.values()), pairs=how["pairs"],
        machine=how["machine"], date=how["date"], python=how["python"], versions=versions,
        remark=remark(how["remark"]),
    )  # fmt: skip
    lines = [
        text,
        "| program | first | proven | pairs | loss | healthy | sick step | mended | well | ratio | verify |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_our_row(item) for item in ours.values()),
    ]
    failed = [
        f"- {item['name']}: {item['error'] or 'see the row'}" for item in ours.values() if not item["cured"]
    ]
    lines += ["", "Not cured:", "", *failed] if failed else []
    seconds = sum(item["verify_seconds"] for item in ours.values()) + sum(i["seconds"] for i in theirs.values())
    lines.append(_AGAIN.format(minutes=seconds / 60 * 1.6))
    if theirs:
        lines += [
            _RIVAL,
            "| program | gpudoctor proves | ratio | time | train-doctor finds | proves | ratio | time |",
            "|---|---|---|---|---|---|---|---|",
            *(_both(ours[name], theirs[name]) for name in ours if name in theirs),
            "",
            _totals(ours, theirs),
        ]
    return "\n".join(lines)


def remark(words: str) -> str:
    """The remark on the machine as a sentence, if there is one."""
    return f" {words}." if words else ""


def interval(proof: dict[str, Any] | None) -> str:
    """`1.94x [1.31, 2.87]`."""
    if not proof or not proof.get("ratio"):
        return "nothing"
    return f"{proof['ratio']:.2f}x [{proof['low']:.2f}, {proof['high']:.2f}]"


def milliseconds(seconds: float | None) -> str:
    """With three digits."""
    return "-" if seconds is None else f"{1000 * seconds:.3g} ms"


def _our_row(item: dict[str, Any]) -> str:
    proof = item["proof"] if item["proven"] else None
    ratio = f"{item['ratio_to_well']:.2f}" if item["ratio_to_well"] else "-"
    cells = [
        item["what"], item["code"] + ("" if item["found"] else " (**wrong**)"), interval(proof),
        str(proof["pairs"]) if proof else "-", (proof["loss"] or "not seen") if proof else "-",
        "yes" if item["healthy"] else "**no**", milliseconds(item["sick_seconds"]),
        milliseconds(item["mended_seconds"]), milliseconds(item["well_seconds"]),
        ratio if item["reached"] else f"**{ratio}**", f"{item['verify_seconds']:.0f} s",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _both(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    found = ", ".join(theirs["findings"]) or "nothing"
    cells = [
        ours["what"], interval(ours["proof"] if ours["proven"] else None),
        f"{ours['ratio_to_well']:.2f}" if ours["ratio_to_well"] else "-", f"{ours['verify_seconds']:.0f} s",
        found if theirs["found"] else f"not the cause ({found})",
        f"{theirs['remedy']}: {interval(theirs)}" if theirs["proven"] else "nothing",
        f"{theirs['ratio_to_well']:.2f}" if theirs["ratio_to_well"] else "-", f"{theirs['seconds']:.0f} s",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _totals(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    both = [name for name in ours if name in theirs]

    def count(side: dict[str, Any], key: str) -> str:
        return f"{sum(bool(side[name][key]) for name in both)} of {len(both)}"

    mine = median(ours[name]["verify_seconds"] for name in both)
    other = median(theirs[name]["seconds"] for name in both)
    return (
        "gpudoctor and train-doctor, in that order:\n\n"
        f"- cause found: {count(ours, 'found')} and {count(theirs, 'found')};\n"
        f"- a change proven: {count(ours, 'proven')} and {count(theirs, 'proven')};\n"
        f"- the well twin's step reached: {count(ours, 'reached')} and {count(theirs, 'reached')};\n"
        f"- median time: {mine:.0f} s and {other:.0f} s."
    )


def null(data: dict[str, Any]) -> str:
    """Error and power."""
    known = data["measured"]
    windows = " and ".join(f"{item['windows']} of `{item['command']}`" for item in known) or "none yet"
    spreads = ", ".join(f"{item['pair_spread']:.1%}" for item in known)
    spread = f" Two neighbours of them differ by {spreads} (one standard deviation)." if known else ""
    lines = [
        _NULL.format(trials=f"{data['trials']:,}", windows=windows, spread=spread),
        "| noise | truly faster by | said faster | said slower | unclear | pairs, on average |",
        "|---|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        shares = " | ".join(f"{row[word]:.1%}" for word in ("faster", "slower", "no clear difference"))
        lines.append(f"| {row['noise']} | {row['true'] - 1:.0%} | {shares} | {row['pairs']:.1f} |")
    return "\n".join([*lines, _NULL_AGAIN])


def overhead(data: dict[str, Any]) -> str:
    """Seconds a run, median over the rounds."""
    lines = [
        _OVERHEAD.format(goal=data["how"]["goal"], remark=remark(data["how"]["remark"])),
        "| job | runs | its own start | before the first step | after the last | beside all | ours a run |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in dict.fromkeys(row["job"] for row in data["rows"]):
        mine = [row for row in data["rows"] if row["job"] == job]
        middle = {key: median(row[key] for row in mine) for key in mine[0] if key != "job"}
        lines.append(
            f"| {job} | {middle['runs']:.0f} | {middle['bare_start']:.1f} s | {middle['start']:.2f} s | "
            f"{middle['end']:.2f} s | {middle['beside']:.1f} s in all | **{middle['overhead']:.2f} s** |"
        )
    return "\n".join([*lines, _OVERHEAD_AGAIN])


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"{PAGE.relative_to(ROOT)} written\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
