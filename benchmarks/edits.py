"""Applies every edit of `gpudoctor check` to a copy of public code and looks for the ailment again.

    python benchmarks/edits.py FOLDER... [--json FILE] [--diffs FILE] [--configs] [--select CODES]

Each script of a folder (with --configs each configuration) is examined on a copy. Each remedy that carries
edits is applied there alone, the script examined again, and the copy put back. An edit is good when it can be
applied, the files that it changes still parse, its finding is gone, its check says nothing else in its place,
no check has a new error or warning, no file changed that the edit does not name, and no value that the program
chooses (an option, a setting, a name) is replaced by a number. One edit counts once, however many scripts
reach its place. Nothing is run and nothing is imported; findings about this machine are left out. `--diffs`
keeps each edit as a unified diff below its verdict, to be judged by eye; `--json` keeps the table.
"""

import argparse
import ast
import collections
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from cli_speed import machine
from sweep import CONFIGS, SCRIPTS, TOPICS, files_of

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import Registry, load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.mend.plan import EditPlan, make_plan
from gpudoctor.model import Applicability, Finding, KeywordEdit, Patient, Ranked, Remedy, Report, Severity, Signs
from gpudoctor.vitals.build_patient import PatientRequest, admit
from gpudoctor.vitals.targets import sort_targets

VERDICTS = (
    "cures",
    "does not apply",
    "does not parse",
    "still found",
    "in its place",
    "new finding",
    "other file",
    "overwrites",
)
"""What an edit can come to, the worst that it did; `cures` is the only good one."""


_MOVED = 5
"""Lines by which an edit moves what stands below it, at most."""
_MACHINE = ("host", "gpu_survey", "kernel_log", "packages", "torch", "argument_fields")
"""Signs that are the same for every script: taken once."""


@dataclass(slots=True)
class Tried:
    """One edit and what became of it."""

    project: str
    code: str
    remedy: str
    applicability: str
    examined: str
    message: str
    verdict: str = "cures"
    why: str = ""
    diff: str = ""


@dataclass(slots=True)
class Table:
    """Edits by code and verdict."""

    rows: dict[str, collections.Counter[str]] = field(default_factory=dict)

    def add(self, tried: Tried) -> None:
        """Count one edit."""
        self.rows.setdefault(tried.code, collections.Counter())[tried.verdict] += 1

    def text(self) -> str:
        """The table, a line a code."""
        lines = ["code      edits  " + "  ".join(VERDICTS)]
        total: collections.Counter[str] = collections.Counter()
        for code, row in [*sorted(self.rows.items()), ("all", total)]:
            cells = "  ".join(f"{row[verdict] or '':>{len(verdict)}}" for verdict in VERDICTS)
            lines.append(f"{code:<8}  {sum(row.values()):>5}  {cells}".rstrip())
            if row is not total:
                total.update(row)
        return "\n".join(lines)


class Copy:
    """A copy of one project, examined and changed at will; the working folder is the one that holds it."""

    def __init__(self, folder: Path, registry: Registry, select: str) -> None:
        self.name = folder.name
        chosen = make_selection(registry, [(code, "--select") for code in select.split(",")], [])
        self._request = Request(registry=registry, selection=chosen)
        self._machine: Signs | None = None

    def examined(self, path: Path) -> Report:
        """The report of one script or configuration."""
        patient = admit(PatientRequest(targets=sort_targets([str(path)])))
        machine = {name: getattr(self._machine or patient.signs, name) for name in _MACHINE}
        self._machine = self._machine or patient.signs
        return examine(
            Patient(patient.kind, patient.title, replace(patient.signs, **machine), patient.targets), self._request
        )

    def tried(self, path: Path, seen: set[tuple[str, str]]) -> Iterator[Tried]:
        """Each edit of each finding of one file; `seen` holds the edits that were tried before."""
        before = self.examined(path)
        for item in before.findings:
            for remedy in item.remedies:
                key = (remedy.id, repr(sorted(map(repr, remedy.edits))))
                if not remedy.edits or key in seen:
                    continue
                seen.add(key)
                tried = Tried(
                    project=self.name,
                    code=item.finding.code,
                    remedy=remedy.id,
                    applicability=remedy.applicability.value,
                    examined=str(path),
                    message=item.finding.message,
                )
                self._judge(tried, path, before, item.finding, remedy)
                yield tried

    def _judge(self, tried: Tried, path: Path, before: Report, finding: Finding, remedy: Remedy) -> None:
        plan = plan_of(finding, remedy)
        if plan.left or not plan.files:
            tried.verdict = "does not apply"
            tried.why = "; ".join(left.reason for left in plan.left) or "it changes nothing"
            return
        tried.diff = plan.diff
        old = {item.old.path: item.old.path.read_bytes() for item in plan.files}
        named = {Path(edit.path) for edit in remedy.edits}
        try:
            for item in plan.files:
                item.old.path.write_bytes(item.old.encode(item.new))
            tried.verdict, tried.why = verdict(
                before, lambda: self.examined(path), finding, [(item.old.path, item.new) for item in plan.files]
            )
        finally:
            for place, data in old.items():
                place.write_bytes(data)
        lost = list(overwritten(remedy))
        if tried.verdict == "cures" and lost:
            tried.verdict, tried.why = "overwrites", "; ".join(lost)
        if set(old) - named:
            tried.verdict, tried.why = "other file", ", ".join(map(str, set(old) - named))


def plan_of(finding: Finding, remedy: Remedy) -> EditPlan:
    """The plan of one remedy alone, whatever permission it needs."""
    alone = replace(remedy, applicability=Applicability.SAFE)
    return make_plan([Ranked(rank=1, finding=finding, remedies=(alone,), set_aside=(), reason="")], unsafe=True)


def overwritten(remedy: Remedy) -> Iterator[str]:
    """Arguments whose value is a name, an option or a call, and that an edit replaces by a value of its own."""
    for edit in remedy.edits:
        if not isinstance(edit, KeywordEdit):
            continue
        for node in ast.walk(ast.parse(Path(edit.path).read_bytes())):
            if isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1) == (edit.line, edit.column):
                given = {item.arg: ast.unparse(item.value) for item in node.keywords if not written(item.value)}
                for name, value in edit.set:
                    if name in given and given[name] not in value:
                        yield f"{name}={value} in place of {given[name]}"


def written(node: ast.expr) -> bool:
    """Whether an expression is a literal."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def verdict(
    before: Report, again: Callable[[], Report], finding: Finding, files: list[tuple[Path, str]]
) -> tuple[str, str]:
    """What an edit came to, and why; `again` examines the changed copy."""
    for path, text in files:
        if path.suffix == ".py":
            try:
                ast.parse(text)
            except SyntaxError as error:
                return "does not parse", f"{path}: {error}"
    after = again()
    was, now = said(before), said(after)
    own = (finding.code, words(finding))
    if now[own] >= max(1, was[own]) and named(finding, after, own):
        return "still found", finding.message
    rank = finding.severity.rank
    # Another finding of the check may be worded anew; a new one makes up for the one that is gone.
    fewer = sum(now[key] for key in now if key[0] == own[0]) < sum(was[key] for key in was if key[0] == own[0])
    for key in now - was:
        item = next(each.finding for each in after.findings if (each.finding.code, words(each.finding)) == key)
        # A check that names the first place only goes on to the next one, in the same words.
        another = fewer or plain(item.message) == plain(finding.message)
        if item.code == finding.code and item.severity.rank >= rank and not another:
            return "in its place", item.message
        known = any(
            (each.finding.code, plain(each.finding.message)) == (item.code, plain(item.message))
            for each in before.findings
        )
        if item.code != finding.code and item.severity is not Severity.NOTE and not known:
            return "new finding", f"{item.code} {item.message}"
    lost = [problem for problem in after.problems if problem not in before.problems]
    return ("does not parse", lost[0]) if lost else ("cures", "")


def named(finding: Finding, after: Report, own: tuple[str, str]) -> bool:
    """Whether one of the findings in the same words names the same line, moved by what was inserted above."""
    before = [int(line) for line in re.findall(r"\blines? (\d+)", finding.message)]
    for item in after.findings:
        if (item.finding.code, words(item.finding)) == own:
            lines = [int(line) for line in re.findall(r"\blines? (\d+)", item.finding.message)]
            if all(abs(new - old) <= _MOVED for new, old in zip(lines, before, strict=False)):
                return True
    return False


def said(report: Report) -> collections.Counter[tuple[str, str]]:
    """The findings of a report by code and words."""
    return collections.Counter((item.finding.code, words(item.finding)) for item in report.findings)


def words(finding: Finding) -> str:
    """A finding without its numbers (a line inserted above moves the others), and the line that it is about."""
    line = f" {finding.span.text.strip()}" if finding.span is not None else ""
    return plain(finding.message) + line


def plain(message: str) -> str:
    """A message without its numbers."""
    return " ".join("#" if any(map(str.isdigit, word)) else word for word in message.split())


def project(folder: Path, registry: Registry, select: str, endings: tuple[str, ...]) -> list[Tried]:
    """Every edit of one project."""
    found: list[Tried] = []
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(
            folder,
            Path(scratch, folder.name),
            symlinks=True,
            ignore=shutil.ignore_patterns(".git"),
            ignore_dangling_symlinks=True,
        )
        with _inside(scratch):
            copy = Copy(folder, registry, select)
            seen: set[tuple[str, str]] = set()
            for path in files_of(Path(folder.name), endings):
                found += copy.tried(path, seen)
    return found


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> int:
    """Try every edit of the folders named; exit code 1 when one is not good."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, help="keep the table here")
    parser.add_argument("--diffs", type=Path, help="keep each edit as a diff, with its verdict, here")
    parser.add_argument("--configs", action="store_true", help="configuration files instead of scripts")
    parser.add_argument("--select", default=TOPICS, help="codes whose edits are tried, and that are looked for")
    parser.add_argument("--commits", type=Path, help="a JSON file of owner/name to {commit}, kept with the table")
    options = parser.parse_args()
    registry, table, every = load_registry(), Table(), []
    for folder in options.folders:
        tried = project(folder.resolve(), registry, options.select, CONFIGS if options.configs else SCRIPTS)
        for item in tried:
            table.add(item)
        every += tried
        wrong = sum(item.verdict != "cures" for item in tried)
        print(f"{folder.name}: {len(tried)} edits, {wrong} not good", flush=True)
        for item in tried:
            if item.verdict != "cures":
                print(f"  {item.verdict}: {item.remedy} in {item.examined}: {item.why}", flush=True)
    print(table.text())
    if options.diffs:
        options.diffs.write_text(
            "".join(
                f"=== {item.verdict} · {item.remedy} ({item.applicability}) · {item.message}\n{item.why}\n{item.diff}\n"
                for item in every
            ),
            encoding="utf-8",
            errors="surrogatepass",
        )
    if options.json:
        commits = json.loads(options.commits.read_text()) if options.commits else {}
        kept = {
            "how": machine(),
            "projects": {
                name: commits.get(name, {}).get("commit", "")
                for name in (folder.name.replace("+", "/", 1) for folder in options.folders)
            },
            "table": {code: dict(sorted(row.items())) for code, row in sorted(table.rows.items())},
            "not good": [
                {"project": item.project, "remedy": item.remedy, "verdict": item.verdict, "why": item.why}
                for item in every
                if item.verdict != "cures"
            ],
        }
        options.json.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(item.verdict != "cures" for item in every))


if __name__ == "__main__":
    sys.exit(main())
