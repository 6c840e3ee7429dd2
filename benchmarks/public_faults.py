"""Scores `gpudoctor run` on programs that others wrote, with and without a fault that somebody put in.

    python benchmarks/public_faults.py CASES.json --results FILE [--only TEXT,...] [--again] [--seconds 40]
        [--python PATH] [--keep DIR]

No program is part of this repository: fetch them, make them run in seconds (small made-up data), and describe
them in CASES.json, a list of objects:

    project   the program's name
    folder    where it lies; every run gets a fresh copy of it. A relative path begins at CASES.json
    command   how it starts, a list of words; "python" is the interpreter of --python
    fault     the fault in words; "" for the program as it is
    patch     a file with the fault as a unified diff (`git diff`) for `patch -p1`; none without a fault
    expected  codes of which the first finding has to be one; [] where nothing may be said above a note
    true      codes that are true of the program beside the fault, as a person has judged: data that is slow
              in truth, a checkpoint at every step that its authors wrote
    wrong     codes of `expected` or `true` that were said with words that are not true of it
    environment, seconds, steps, commit   optional: variables, limits of its own, the version that was fetched

Write `expected` before the first run, `true` and `wrong` after reading what was said. Counted are: the cause
in the first place; there, with all else that was said true (strict); in any place; and the warnings and errors
that are wrong: those that neither `expected` nor `true` names, and those of `wrong`. Notes are kept and not
counted. `--results` keeps what was found, so that a case is not run twice (`--again` runs it again) and the
judgement can change later.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

COUNTED = ("error", "warning")


def name_of(case: dict[str, Any]) -> str:
    """What a case is called in the results."""
    return f"{case['project']}: {case.get('fault') or 'as it is'}"


def _interruptible() -> None:
    """A shell's background job ignores Ctrl-C, and the program would end without its last records."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def examine(case: dict[str, Any], base: Path, python: str, seconds: float, keep: Path | None) -> dict[str, Any]:
    """Run one case in a fresh copy of its folder and return what was found of it."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "program"
        shutil.copytree(base / case["folder"], place, symlinks=True)
        if case.get("patch"):
            with (base / case["patch"]).open("rb") as patch:
                subprocess.run(["patch", "-p1", "--quiet"], cwd=place, stdin=patch, check=True)
        out = Path(scratch) / "report.json"
        words = [
            sys.executable, "-m", "gpudoctor", "run", "--quiet", "--seconds", str(case.get("seconds", seconds)),
            "--grace", "10", "--recording", str(Path(scratch) / "recording"), "--format", "json",
            "--output", str(out), *(["--steps", str(case["steps"])] if "steps" in case else ()), "--",
        ]  # fmt: skip
        words += [python if word == "python" else word for word in case["command"]]
        began = time.monotonic()
        done = subprocess.run(
            words, cwd=place, env={**os.environ, **case.get("environment", {})}, capture_output=True, text=True,
            errors="replace", check=False, preexec_fn=_interruptible,
        )  # fmt: skip
        took = round(time.monotonic() - began, 1)
        if keep is not None:
            kept = keep / "".join(char if char.isalnum() else "-" for char in name_of(case))
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(scratch, kept, symlinks=True)
            (kept / "stdout").write_text(done.stdout, encoding="utf-8")
            (kept / "stderr").write_text(done.stderr, encoding="utf-8")
        if not out.is_file():
            return {"seconds": took, "lost": done.stderr.strip()[-300:], "findings": []}
        report = json.loads(out.read_text(encoding="utf-8"))
    said = [{key: item[key] for key in ("code", "severity", "message")} for item in report["findings"]]
    steps = (report.get("run") or {}).get("steps")
    return {"seconds": took, "steps": steps, "verdict": (report.get("summary") or {}).get("verdict"), "findings": said}


def judge(case: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """First, strict and any place of a case, and the wrong warnings of it."""
    found = [item["code"] for item in result["findings"] if item["severity"] in COUNTED]
    everything = [item["code"] for item in result["findings"]]
    expected, wrong = set(case["expected"]), set(case.get("wrong", ()))
    known = (expected | set(case.get("true", ()))) - wrong
    untrue = [code for code in found if code not in known]
    lost = "lost" in result
    first = not lost and (bool(everything) and everything[0] in expected if expected else not untrue)
    return {
        "first": first,
        "strict": first and not untrue,
        "any": not lost and (bool(expected & set(everything)) if expected else not untrue),
        "wrong": untrue,
    }


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines of the table, the faults' counts and those of the programs as they are."""
    for row in rows:
        mark = "strict" if row["strict"] else "first" if row["first"] else "any" if row["any"] else "MISSED"
        codes = " ".join(row["found"]) or "nothing"
        wrong = f"   wrong: {' '.join(row['wrong'])}" if row["wrong"] else ""
        expected = " ".join(row["expected"])
        yield f"{mark:7} {name_of(row)} [{expected}] {codes}{wrong}"
    for title, part in (
        ("faults", [row for row in rows if row["fault"]]),
        ("programs as they are", [row for row in rows if not row["fault"]]),
    ):
        first, strict, anywhere = (sum(row[key] for row in part) for key in ("first", "strict", "any"))
        untrue = sum(len(row["wrong"]) for row in part)
        yield f"{title}: {len(part)}; first {first}, strict {strict}, any {anywhere}; wrong warnings {untrue}"


def rows_of(cases: Sequence[dict[str, Any]], results: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each case that was run: what was put in, expected and found, and how that is judged."""
    rows = []
    for case in cases:
        result = results.get(name_of(case))
        if result is None:
            continue
        said = [item for item in result["findings"] if item["severity"] in COUNTED]
        rows.append(
            {
                "project": case["project"],
                "commit": case.get("commit"),
                "fault": case.get("fault", ""),
                "expected": case["expected"],
                "true": case.get("true", []),
                "found": [item["code"] for item in said],
                "notes": [item["code"] for item in result["findings"] if item not in said],
                "steps": result.get("steps"),
                **judge(case, result),
            }
        )
    return rows


def main() -> None:
    """Run the cases that are asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--results", type=Path, required=True, help="what was found, kept from call to call")
    parser.add_argument("--only", default="", help="cases whose name holds one of these texts")
    parser.add_argument("--again", action="store_true", help="also those that the results have")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the programs")
    parser.add_argument("--keep", type=Path, help="folder for recordings, reports and outputs")
    asked = parser.parse_args()
    cases = json.loads(asked.cases.read_text(encoding="utf-8"))
    results = json.loads(asked.results.read_text(encoding="utf-8")) if asked.results.is_file() else {}
    wanted = [text for text in asked.only.split(",") if text]
    for case in cases:
        name = name_of(case)
        if (wanted and not any(text in name for text in wanted)) or (name in results and not asked.again):
            continue
        results[name] = examine(case, asked.cases.parent, asked.python, asked.seconds, asked.keep)
        asked.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(*list(table(rows_of([case], results)))[:1], sep="\n", flush=True)
    print(*table(rows_of(cases, results)), sep="\n")


if __name__ == "__main__":
    main()
