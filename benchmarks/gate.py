"""What two versions say of the same inputs, side by side: the gate of a rewrite.

    make gate BASE=large [PUBLIC=FOLDER] [RECORDINGS=FOLDER]
    python benchmarks/gate.py collect FILE [--public FOLDER] [--recordings FOLDER]     in each version
    python benchmarks/gate.py compare BEFORE NOW                                       exit code 1 if something was lost

Inputs: the scripts of examples, tests and trials; the composed logs; estimates of every preset; pages of `explain`;
helps; and, if given, folders of public projects and logs (PUBLIC) and stored recordings (RECORDINGS). Both versions
read the inputs of the newer tree, through `gpudoctor.cli.main` and its JSON.
"""

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
METHODS = ("full", "lora", "qlora")
MACHINE = ("ENV", "GPU", "NODE")
"""Topics that are about this machine: the same for both, and not of the input."""
CODES = re.compile(r"\b[A-Z]{2,4}\d{3}\b")


def said(words: Sequence[str]) -> tuple[int, str]:
    """Exit code and standard output of a command in this process."""
    from gpudoctor.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue()


def findings(words: Sequence[str]) -> dict[str, Any]:
    """What a command with a JSON report finds: per finding code, severity, place, text and remedies."""
    code, text = said([*words, "--format", "json"])
    try:
        report = json.loads(text)
    except ValueError:
        return {"exit": code, "findings": []}
    rows = []
    for item in report["findings"]:
        if item["code"].startswith(MACHINE) and words[0] == "check":
            continue
        line = next((each["line"] for each in item["evidence"] if each.get("line")), None)
        rows.append(
            {
                "code": item["code"], "severity": item["severity"], "confidence": item["confidence"], "line": line,
                "message": item["message"],
                "remedies": [[each["id"], each["title"], each["applicability"]] for each in item["remedies"]],
            }
        )  # fmt: skip
    return {"exit": code, "findings": rows}


def scripts() -> Iterator[Path]:
    """The repository's own scripts."""
    for folder in ("examples", "tests/patients", "tests/origin/patients", "benchmarks/trials/patients"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def collect(public: Path | None, recordings: Path | None) -> dict[str, Any]:
    """Everything, by the name of the input."""
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for path in scripts():
            made[f"check {path.relative_to(ROOT)}"] = findings(["check", str(path)])
        with tarfile.open(ROOT / "benchmarks" / "data" / "composed-logs.tar.xz") as archive:
            archive.extractall(scratch / "logs", filter="data")
        for path in sorted((scratch / "logs").glob("*.log")):
            made[f"autopsy composed/{path.name}"] = findings(["autopsy", str(path)])
        for name, read in _others(public, recordings):
            made[name] = read()
    return made


def _others(public: Path | None, recordings: Path | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    for path in sorted(public.glob("*")) if public else ():
        command = "check" if path.is_dir() else "autopsy"
        yield f"{command} public/{path.name}", lambda c=command, p=path: findings([c, str(p)])  # type: ignore[misc]
    for path in sorted(recordings.glob("*")) if recordings else ():
        yield f"report recordings/{path.name}", lambda p=path: findings(["report", str(p)])  # type: ignore[misc]
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.estimate.presets import presets

    for preset in presets():
        for method in METHODS:
            words = ["estimate", "--model", preset, "--method", method, "--format", "json"]
            yield " ".join(words[:5]), lambda w=words: _total(w)  # type: ignore[misc]
    for code in load_registry().checks:
        yield f"explain {code}", lambda c=str(code): said(["explain", c])  # type: ignore[misc]
    for command in ("check", "run", "verify", "watch", "autopsy", "preflight", "compare", "report", "explain", "list"):
        yield f"help {command}", lambda c=command: said([c, "--help"])  # type: ignore[misc]


def _total(words: Sequence[str]) -> Any:
    code, text = said(words)
    try:
        return [code, json.loads(text)["total_bytes"]]
    except (ValueError, KeyError):
        return [code, None]


def compare(before: dict[str, Any], now: dict[str, Any]) -> int:
    """Print what differs, by code; returns the number of inputs whose findings were lost."""
    lost, new, moved = defaultdict(list), defaultdict(list), defaultdict(list)
    texts: list[str] = []
    for name, old in before.items():
        other = now.get(name)
        if not isinstance(old, dict):
            if other != old:
                texts.append(name)
            continue
        ours = {(row["code"], row["line"]): row for row in (other or {"findings": []})["findings"]}
        theirs = {(row["code"], row["line"]): row for row in old["findings"]}
        for key in theirs.keys() - ours.keys():
            lost[key[0]].append(name)
        for key in ours.keys() - theirs.keys():
            new[key[0]].append(name)
        for key in ours.keys() & theirs.keys():
            changed = [part for part in theirs[key] if theirs[key][part] != ours[key][part]]
            for part in changed:
                moved[f"{key[0]} {part}"].append(name)
    for title, table in (("lost", lost), ("new", new), ("changed", moved)):
        for key, names in sorted(table.items()):
            print(f"{title:8} {key:20} {len(names):5}  {', '.join(names[:3])}")
    kinds = Counter(name.split()[0] for name in texts)
    print(f"{'texts':8} {', '.join(f'{kind} {count}' for kind, count in kinds.items()) or 'the same'}")
    for name in texts[:40]:
        print(f"         {name}")
    print(f"{len(before)} inputs; lost {sum(map(len, lost.values()))}, new {sum(map(len, new.values()))}")
    return sum(map(len, lost.values()))


def main() -> int:
    """Collect or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("file", type=Path)
    collecting.add_argument("--public", type=Path)
    collecting.add_argument("--recordings", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("now", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        read = (json.loads(path.read_text(encoding="utf-8")) for path in (given.before, given.now))
        return 1 if compare(*read) else 0
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "LC_ALL": "C", "GPUDOCTOR_LANG": "en"}
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text(json.dumps(collect(given.public, given.recordings), indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
