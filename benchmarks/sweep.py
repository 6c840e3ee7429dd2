"""Runs `gpudoctor check` over folders of other people's code, one script or one configuration at a time.

    python benchmarks/sweep.py FOLDER... [--json FILE] [--configs | --whole] [--select CODES] [--slow SECONDS]

Prints for every folder the files, lines, findings by severity and code, notes a file, the files that were
slow and those that could not be read; `--json` keeps the list (severity, code, place, message, line of
source) to be judged by eye. Findings about this machine (ENV, GPU) are left out: they would be about the
reader's computer, not the code. Test folders are left out. Each finding counts once, however many scripts of
the folder reach its place.
"""

import argparse
import collections
import contextlib
import io
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from gpudoctor.cli import main as gpudoctor

SCRIPTS = (".py", ".ipynb")
CONFIGS = (".yaml", ".yml", ".json", ".toml")
TOPICS = "DATA,SYNC,OBS,MEM,NUM,LOOP,PERF,DIST,CFG"
LEFT_OUT = {"tests", "test", "testing", ".git", ".github", "node_modules", "__pycache__"}


@dataclass(slots=True)
class Sweep:
    """What one folder gave."""

    folder: Path
    files: int = 0
    lines: int = 0
    seconds: float = 0.0
    findings: dict[tuple[str, str, int], dict[str, object]] = field(default_factory=dict)
    slow: list[tuple[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)


def files_of(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """The files with one of these endings below a folder, in order, test folders left out."""
    if folder.is_file():
        return [folder]
    found = []
    for where, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name not in LEFT_OUT)
        found += [Path(where) / name for name in sorted(files) if name.endswith(endings)]
    return found


def examined(path: Path, select: str) -> tuple[dict[str, object] | None, str]:
    """The report of one `gpudoctor check`, as data, and what it said on standard error."""
    out, err = io.StringIO(), io.StringIO()
    command = ["check", str(path), "--format", "json", "--fail-on", "never", "--select", select]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        gpudoctor(command)
    try:
        report: dict[str, object] = json.loads(out.getvalue())
    except ValueError:
        return None, err.getvalue()
    return report, err.getvalue()


def place(finding: dict[str, object], path: Path) -> tuple[str, int, str]:
    """File, line and text of a finding: its first evidence in a script, else in a configuration."""
    for evidence in finding["evidence"]:  # type: ignore[attr-defined]
        if evidence.get("path"):
            return evidence["path"], evidence.get("line") or 0, evidence.get("text") or ""
    return str(path), 0, ""


def take(sweep: Sweep, path: Path, select: str, slow: float) -> None:
    """Examine one file, or a folder as a whole, and add what it gave to the folder's sweep."""
    start = time.process_time()
    report, said = examined(path, select)
    seconds = time.process_time() - start
    files = files_of(path, SCRIPTS + (CONFIGS if path.is_dir() else ())) if path.is_dir() else [path]
    sweep.files += len(files)
    sweep.lines += sum(file.read_bytes().count(b"\n") for file in files)
    sweep.seconds += seconds
    if seconds > slow:
        sweep.slow.append((str(path), round(seconds, 1)))
    if report is None:
        sweep.problems.append(f"{path}: no report: {said.strip()[-200:]}")
        return
    sweep.problems += [f"{path}: {problem}" for problem in report.get("problems", [])]  # type: ignore[attr-defined]
    for outcome in report["outcomes"]:  # type: ignore[attr-defined]
        if outcome["outcome"] == "crashed":
            sweep.crashes.append(f"{path}: {outcome['code']}: {outcome['reason']}")
    for finding in report["findings"]:  # type: ignore[attr-defined]
        where, line, text = place(finding, path)
        sweep.findings.setdefault((finding["code"], where, line), {
            "severity": finding["severity"], "code": finding["code"], "name": finding["name"],
            "confidence": finding["confidence"], "path": where, "line": line, "text": text.strip(),
            "message": finding["message"], "examined": str(path)})  # fmt: skip


def table(sweep: Sweep) -> str:
    """One folder in lines."""
    rows = list(sweep.findings.values())
    severities = collections.Counter(str(row["severity"]) for row in rows)
    share = severities["note"] / max(sweep.files, 1)
    lines = [
        f"{sweep.folder}: {sweep.files} files, {sweep.lines} lines, {sweep.seconds:.1f} s of CPU; "
        f"{severities['error']} errors, {severities['warning']} warnings, {severities['note']} notes "
        f"({share:.2f} a file)"
    ]
    for severity in ("error", "warning", "note"):
        codes = collections.Counter(str(row["code"]) for row in rows if row["severity"] == severity)
        lines.append(f"  {severity:<8}" + ", ".join(f"{code} {count}" for code, count in sorted(codes.items())))
    lines += [f"  slow     {path}: {seconds} s" for path, seconds in sweep.slow]
    lines += [f"  crashed  {crash}" for crash in sweep.crashes]
    lines += [f"  problem  {problem}" for problem in sweep.problems]
    return "\n".join(lines)


def main() -> int:
    """Sweep the folders named; exit code 1 when a check crashed or a report did not come."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, help="keep the list of findings here")
    parser.add_argument("--configs", action="store_true", help="configuration files instead of scripts")
    parser.add_argument("--whole", action="store_true", help="each folder as one patient, not file by file")
    parser.add_argument("--select", default=TOPICS, help="codes to look for")
    parser.add_argument("--slow", type=float, default=3.0, help="seconds from which a file is named as slow")
    options = parser.parse_args()
    kept = []
    broken = 0
    for folder in options.folders:
        sweep = Sweep(folder)
        parts = files_of(folder, CONFIGS if options.configs else SCRIPTS)
        for path in [folder] if options.whole else parts:
            take(sweep, path, options.select, options.slow)
        print(table(sweep), flush=True)
        kept += [{"folder": str(folder)} | row for row in sweep.findings.values()]
        broken += len(sweep.crashes)
    if options.json:
        options.json.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
