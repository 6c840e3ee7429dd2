"""Scores `gpudoctor run` on the corpus: the right ailment first, its line, silence on the well twins.

    python benchmarks/diagnosis/score.py [--style plain,classes] [--only NAME,...] [--shard 1/4]
        [--json FILE] [--keep DIR]

Every program is written into an empty folder and run there by `gpudoctor run`, checks of the machine (ENV,
GPU) left out, since they speak of the reader's computer. A hit is a first finding with one of the codes that
name the cause; a right line is the line marked `# sick` among that finding's places (programs that mark the
cause by a comment at the top have none); a false alarm is a warning or an error on a well twin.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ailments import AILMENTS, Ailment
from skeletons import STYLES, fill

MARK = "# sick"


@dataclass
class Outcome:
    """One program run once."""

    ailment: str
    style: str
    state: str
    seconds: float
    exit_code: int
    findings: list[tuple[str, str]]
    """Code and severity, in rank."""
    hit: bool | None = None
    found: bool | None = None
    """Whether the code is among the findings at any place."""
    line: bool | None = None
    alarms: tuple[str, ...] = ()
    error: str = ""


def arguments_of(ailment: Ailment, script: str) -> list[str]:
    """How the program is started, after the interpreter."""
    if ailment.ranks == 1:
        return [script]
    return ["-m", "torch.distributed.run", f"--nproc_per_node={ailment.ranks}", script]


def run_one(ailment: Ailment, style: str, state: str, keep: Path | None) -> Outcome:
    """Write the program, run it under gpudoctor, judge the report."""
    text = fill(style, ailment.sick if state == "sick" else ailment.well)
    folder = Path(tempfile.mkdtemp(prefix=f"{ailment.name}-{style}-{state}-"))
    (folder / "train.py").write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "gpudoctor.cli", "run", "--quiet", "--format", "json", "--output", "report.json"]
    words += [
        "--recording",
        "recording",
        "--ignore",
        "ENV,GPU",
        *ailment.flags,
        "--",
        sys.executable,
        *arguments_of(ailment, "train.py"),
    ]
    start = time.monotonic()
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        code, error = done.returncode, done.stderr[-2000:]
    except subprocess.TimeoutExpired:
        code, error = -1, "no end within 300 s"
    seconds = time.monotonic() - start
    try:
        findings = json.loads((folder / "report.json").read_text(encoding="utf-8"))["findings"]
        error = ""
    except (OSError, ValueError, KeyError) as missing:
        findings, error = [], f"no report ({missing}): {error}"
    outcome = Outcome(
        ailment=ailment.name, style=style, state=state, seconds=round(seconds, 1), exit_code=code,
        findings=[(item["code"], item["severity"]) for item in findings], error=error,
    )  # fmt: skip
    judge(outcome, ailment, findings, text)
    if keep is not None:
        shutil.copytree(folder, keep / folder.name)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def judge(outcome: Outcome, ailment: Ailment, findings: list[dict], text: str) -> None:
    """Set hit, line and alarms."""
    if outcome.state == "well":
        outcome.alarms = tuple(
            code
            for code, severity in outcome.findings
            if severity in {"warning", "error"} and code not in ailment.tolerated
        )
        return
    outcome.hit = bool(findings) and findings[0]["code"] in ailment.codes
    outcome.found = any(code in ailment.codes for code, _ in outcome.findings)
    marked = [n for n, line in enumerate(text.split("\n"), start=1) if MARK in line and not line.startswith(MARK)]
    if marked and outcome.found:
        places = {
            (os.path.basename(item.get("path") or ""), item.get("line"))
            for finding in findings
            if finding["code"] in ailment.codes
            for item in finding["evidence"]
        }
        outcome.line = any(("train.py", line) in places for line in marked)


def table(outcomes: list[Outcome]) -> str:
    """The score, and what went wrong, one line each."""
    sick = [item for item in outcomes if item.state == "sick"]
    well = [item for item in outcomes if item.state == "well"]
    lined = [item for item in sick if item.line is not None]
    alarmed = [item for item in well if item.alarms]
    lines = []
    for item in outcomes:
        wrong = item.error or (item.state == "sick" and not item.hit) or item.alarms or item.line is False
        if wrong:
            what = item.error or ", ".join(f"{code} {severity}" for code, severity in item.findings[:4])
            word = "error" if item.error else "alarm" if item.alarms else "line" if item.hit else "missed"
            lines.append(f"  {word:7}{item.ailment} ({item.style}, {item.state}): {what or 'nothing found'}")

    def share(count: int, of: int) -> str:
        return f"{count}/{of} ({count / of:.0%})" if of else "0/0"

    lines += [
        f"first place   {share(sum(bool(item.hit) for item in sick), len(sick))}",
        f"found at all  {share(sum(bool(item.found) for item in sick), len(sick))}",
        f"right line    {share(sum(bool(item.line) for item in lined), len(lined))} of those found and marked",
        f"false alarms  {share(len(alarmed), len(well))} of the well twins",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--style", default=",".join(STYLES))
    parser.add_argument("--only", default="")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep the folders of the runs here")
    arguments = parser.parse_args()
    index, shards = (int(part) for part in arguments.shard.split("/"))
    only = set(filter(None, arguments.only.split(",")))
    jobs = [
        (ailment, style, state)
        for ailment in AILMENTS
        if not only or ailment.name in only
        for style in arguments.style.split(",")
        for state in ("sick", "well")
    ][index - 1 :: shards]
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for ailment, style, state in jobs:
        outcome = run_one(ailment, style, state, arguments.keep)
        outcomes.append(outcome)
        first = outcome.findings[0][0] if outcome.findings else "-"
        print(f"{ailment.name:24}{style:9}{state:6}{outcome.seconds:6.1f} s  {first}", flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps([asdict(item) for item in outcomes], indent=1))
    print(table(outcomes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
