"""How often `gpudoctor autopsy` names the first cause: scored on logs whose cause is settled.

    python benchmarks/autopsy.py --texts FOLDER            the seen part, for mending
    python benchmarks/autopsy.py --texts FOLDER --sealed   the sealed part; scored once, writes the pages
    python benchmarks/autopsy.py --set second ...          the second set: whole log files
    python benchmarks/autopsy.py --set third --texts ...   the third set: scored once in whole, then seen
    python benchmarks/autopsy.py --set fourth ...          the fourth set: files and threads, half of it sealed
    python benchmarks/autopsy.py --set fifth --texts ...   the fifth set: whole log files, scored once in whole
    python benchmarks/autopsy.py --set sixth --texts ...   the sixth set: many ranks, kernel logs, pods too
    python benchmarks/autopsy.py --set seventh --texts ... the seventh set: three deaths of a repository at most
    python benchmarks/autopsy.py --set eighth ...          the eighth set: hard kinds, half of it sealed
    python benchmarks/autopsy.py --set ninth ...           the ninth set: Kubernetes and other hard kinds
    python benchmarks/autopsy.py --set tenth ...           the tenth set: threads about jobs of all kinds
    python benchmarks/autopsy.py --set eleventh ...        the eleventh set: neither hard nor easy kinds
    python benchmarks/autopsy.py --set twelfth ...         the twelfth set: the same, scored once in whole
    python benchmarks/autopsy.py --set thirteenth ...      the thirteenth set: the same, half of it sealed
    python benchmarks/autopsy.py --set fourteenth ...      the fourteenth set: the same, scored once in whole
    python benchmarks/autopsy.py --set composed            logs that were composed, which are here
    python benchmarks/autopsy.py --set composed-2          those of a third writer
    python benchmarks/autopsy.py --set composed-3          those of a fourth writer

`benchmarks/data/autopsy-corpus.jsonl` holds the facts: the address of each log, what killed the job and who
settled it, and its skeleton (the lines that libraries print, without numbers, names and paths). The texts
are other people's and are not here: FOLDER holds them as ID.log. Without --texts the skeletons are read.
An entry of the first set is in the sealed third if the SHA-256 of its address is divisible by three; one of the
second, fourth, or the eighth set or a later one is in the sealed half if its repository's SHA-256 is even. The
third, fifth, sixth, seventh, twelfth and fourteenth set have no parts: each was collected after the messages
were written, from what the sets before it do not have, and all of it was scored once (`--sealed`). `also` lists
codes that say the same.
`group` marks logs of many ranks, of Kubernetes, of Slurm and of the kernel.
`benchmarks/data/composed-logs.tar.xz` holds logs that nobody's job wrote, with their causes, lines and ranks: a
language model composed them after the forms of real tools. Of the first writer (c) the even numbers are the
sealed half. The second writer (d) made them to mislead, and all were seen.
The third writer (e) wrote neither easy nor misleading ones; the even numbers are the sealed half. The fourth
(f) did so, too; all were scored once before any mending.
Each text is examined as the command does it. What counts is its first finding that is more than a note.
"""

import argparse
import contextlib
import hashlib
import json
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.errors import DoctorError
from gpudoctor.model import Confidence, Finding, LogLine, Severity
from gpudoctor.vitals.build_log_patient import admit_log, sort_left_behind

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data"
CORPUS = DATA / "autopsy-corpus.jsonl"
COMPOSED = DATA / "composed-logs.tar.xz"


class Part(Enum):
    """What of a set was sealed while others were used for mending."""

    WHOLE = "whole"
    """All of it was scored once, and then seen."""
    HALF = "half"
    """Repositories whose SHA-256 is even."""
    THIRD = "third"
    """Addresses whose SHA-256 is divisible by three."""
    EVEN = "even"
    """Composed logs with an even number, except those that were made to mislead (d)."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSet:
    """A set of logs whose causes are settled."""

    name: str
    title: str
    """Of the score that is kept last."""
    kind: str = ""
    """Of what a set of public logs is; "" for composed ones."""
    before: str = ""
    """Title of a score from before anything was mended with the set; "" without one."""
    writers: tuple[str, ...] = ()
    """The first letters of composed logs."""
    part: Part

    @property
    def score(self) -> Path:
        """The kept score."""
        name = "" if self.name == "first" else f"-{self.name}"
        return DATA / f"autopsy-score{name}.json"

    @property
    def score_before(self) -> Path:
        """The score from before the mending."""
        return self.score.with_name(f"{self.score.stem}-before.json")


SETS = {
    item.name: item
    for item in (
        LogSet(
            name="composed-3",
            title="the fourth writer's logs, later",
            before="all logs of the fourth writer, before anything was mended with them",
            writers=("f",),
            part=Part.NONE,
        ),
        LogSet(
            name="composed-2",
            title="the sealed half of the third writer's logs, later",
            before="all logs of the third writer, before anything was mended with them",
            writers=("e",),
            part=Part.EVEN,
        ),
        LogSet(
            name="composed",
            title="the sealed half of the composed logs, after the other half was used for mending",
            before="the sealed half of the composed logs, before anything was mended",
            writers=("c", "d"),
            part=Part.EVEN,
        ),
        LogSet(
            name="fourteenth",
            title="the fourteenth set, unseen: whole files and threads of all kinds",
            kind="whole files and threads, of all kinds",
            part=Part.WHOLE,
        ),
        LogSet(
            name="thirteenth",
            title="the sealed half of the thirteenth set, after the other half was used for mending",
            kind="whole files and threads, of all kinds",
            before="all of the thirteenth set, before anything was mended with it",
            part=Part.HALF,
        ),
        LogSet(
            name="twelfth",
            title="the twelfth set, unseen: whole files and threads of all kinds",
            kind="whole files and threads, of all kinds",
            part=Part.WHOLE,
        ),
        LogSet(
            name="eleventh",
            title="the sealed half of the eleventh set, after the other half was used for mending",
            kind="whole files and threads, of all kinds",
            before="all of the eleventh set, before anything was mended with it",
            part=Part.HALF,
        ),
        LogSet(
            name="tenth",
            title="the sealed half of the tenth set, after the other half was used for mending",
            kind="threads, of weak kinds",
            before="the sealed half of the tenth set, before anything was mended",
            part=Part.HALF,
        ),
        LogSet(
            name="ninth",
            title="the sealed half of the ninth set, after the other half was used for mending",
            kind="threads and files, of weak kinds",
            before="the sealed half of the ninth set, before anything was mended",
            part=Part.HALF,
        ),
        LogSet(
            name="eighth",
            title="the sealed half of the eighth set, unseen: logs of hard kinds",
            kind="threads and files, of hard kinds",
            part=Part.HALF,
        ),
        LogSet(
            name="seventh",
            title="the seventh set, unseen: whole log files of repositories that are new here",
            kind="whole files, short ones",
            part=Part.WHOLE,
        ),
        LogSet(
            name="sixth",
            title="the sixth set, unseen: whole log files of repositories that are new here",
            kind="whole files, many ranks, kernels",
            part=Part.WHOLE,
        ),
        LogSet(
            name="fifth",
            title="the fifth set, unseen: whole log files of repositories that are new here",
            kind="whole files",
            part=Part.WHOLE,
        ),
        LogSet(
            name="fourth",
            title="the sealed half of the fourth set, after the other half was used for mending",
            kind="files and threads",
            before="the sealed half of the fourth set, unseen: files and threads that are new",
            part=Part.HALF,
        ),
        LogSet(
            name="third",
            title="the third set, unseen: whole log files and threads that are new here",
            kind="files and threads",
            part=Part.WHOLE,
        ),
        LogSet(
            name="second",
            title="the sealed half of whole log files of public repositories, as they are there",
            kind="whole files",
            part=Part.HALF,
        ),
        LogSet(
            name="first", title="the sealed third of the first set", kind="threads, recomposed", part=Part.THIRD
        ),
    )
}
"""The newest sets first, as the pages have them."""
SUMMARY, PAGE = ROOT / "docs" / "autopsy.md", ROOT / "docs" / "autopsy-sets.md"
BEGIN, END = "<!-- autopsy.py begins -->", "<!-- autopsy.py ends -->"
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
FORMS = {
    "file": "whole log files of public repositories",
    "excerpt": "excerpts pasted in threads",
    "composed": "composed after the forms of real tools",
    "recomposed": "recomposed after threads: their messages in their order, other names and numbers",
}


NEAR = 5
"""Lines within which another line of the same traceback or message is."""
SHOWN = 10
"""Logs of a group that a line of its own needs."""
GROUPS = {"many": "jobs of many ranks", "k8s": "Kubernetes", "kernel": "logs of the kernel", "slurm": "Slurm"}
"""Kinds of logs that the sixth set and those after it count apart, if they have at least ten of them."""


def sealed(entry: dict[str, Any]) -> bool:
    """Whether an entry belongs to the part that was not looked at."""
    part = SETS[entry.get("set", "first")].part
    if part is Part.EVEN:
        return not str(entry["id"]).startswith("d") and int(entry["id"][1:]) % 2 == 0
    if part is Part.HALF:
        return _hash("/".join(entry["url"].split("/")[3:5])) % 2 == 0
    return part is Part.THIRD and _hash(entry["url"]) % 3 == 0


def _hash(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def form_of(entry: dict[str, Any]) -> str:
    """How the text came here."""
    if entry.get("form") in ("composed", "recomposed"):
        return str(entry["form"])
    return "file" if "/blob/" in entry["url"] else "excerpt"


def first_finding(path: Path, request: Request) -> Finding | None:
    """The first finding of the command on a log that is more than a note. Raises `DoctorError` for no text."""
    patient = admit_log(sort_left_behind([str(path)]), request.registry.log_messages())
    findings = (item.finding for item in examine(patient, request).findings)
    return next((item for item in findings if item.severity is not Severity.NOTE), None)


def request_for_logs() -> Request:
    """Every check, with the settings of a machine without any."""
    registry = load_registry()
    return Request(registry=registry, selection=make_selection(registry, [], []))


def verdicts(entries: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the command says first of each text, beside what is settled."""
    request = request_for_logs()
    rows = []
    for entry in entries:
        path = folder / f"{entry['id']}.log"
        if not path.is_file():
            continue
        first = None
        with contextlib.suppress(DoctorError):
            first = first_finding(path, request)
        said = first.code if first is not None else "none"
        sure = first is not None and first.confidence is Confidence.CONFIRMED
        evidence = first.evidence if first is not None else ()
        line = next((item.line for item in evidence if isinstance(item, LogLine)), None)
        away = {} if line is None or "line" not in entry else {"lines_away": abs(line - entry["line"])}
        rows.append(
            {
                "id": entry["id"], "code": entry["code"], "kind": entry["kind"], "form": form_of(entry),
                "said": said, "sure": sure, "result": judged(entry, said, sure=sure),
                **({"group": entry["group"]} if "group" in entry else {}),
                **away,
            }
        )  # fmt: skip
    return rows


def judged(entry: dict[str, Any], said: str, *, sure: bool) -> str:
    """`right`, `silent` (no cause named), `hedged` (a wrong one, as probable or suspected), or `wrong`."""
    label = entry["code"]
    if label == "none":
        return "right" if said == "none" else "wrong"
    if label == "unclear":
        return "wrong" if sure and said not in ("none", "FAIL018") else "right"
    if said in (label, *entry.get("also", ()), *ALSO_RIGHT.get((label, entry["kind"]), ())):
        return "right"
    if said == "FAIL020" and entry["kind"] in STARTS:
        return "right"
    if said in ("none", "FAIL018", "FAIL019"):
        return "silent"
    return "wrong" if sure else "hedged"


def skeleton(text: str) -> str:
    """The lines of a text that hold a library's message, without numbers, names and paths; at most twelve."""
    found = []
    for line in text.splitlines():
        if re.search(
            r"(?i)error|exception|traceback|fail|kill|abort|cancel|timeout|signal|nan\b|xid|warn", line
        ):
            line = re.sub(r"\x1b\[[0-9;]*m", "", line)
            line = re.sub(r"(?:/[\w.@+-]+){2,}/?|[A-Za-z]:\\\S+", "<path>", line)
            line = re.sub(r"0x[0-9a-f]+|\d+(?:\.\d+)*", "0", line)
            found.append(line.strip()[:160])
    kept = list(dict.fromkeys(found))
    return "\n".join(kept if len(kept) <= 12 else [*kept[:4], *kept[-8:]])


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Results by form and by family, as Markdown."""
    lines = ["| logs | | first cause right | no cause named | wrong, as probable or suspected | wrong |",
             "|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    died = [row for row in rows if row["code"] not in ("none", "unclear")]
    groups = [("of jobs that died", died)]
    if len({row["form"] for row in rows}) > 1:
        groups += [(FORMS[form], [row for row in died if row["form"] == form]) for form in FORMS]
    groups += [
        (GROUPS[key], [row for row in died if row.get("group") == key])
        for key in GROUPS
        if sum(row.get("group") == key for row in died) >= SHOWN
    ]
    groups.append(
        ("whose cause nobody settled (right: no certain cause)", [r for r in rows if r["code"] == "unclear"])
    )
    for name, group in groups:
        if group:
            lines.append(_line(name, group))
    placed = [row for row in died if row["result"] == "right" and "lines_away" in row]
    if placed:
        near = sum(row["lines_away"] <= NEAR for row in placed)
        lines += [
            "",
            f"Of {len(placed)} right causes {near} are at the line of the cause, or {NEAR} lines from it.",
        ]
    others = [row for row in died if row["result"] in ("hedged", "wrong") and "lines_away" in row]
    if others:
        same = sum(row["lines_away"] <= NEAR for row in others)
        lines += [f"Of {len(others)} wrong ones {same} are there, too: the same failure, under another page."]
    healthy = [row for row in rows if row["code"] == "none"]
    false = sum(row["result"] != "right" for row in healthy)
    lines += ["", f"Of {len(healthy)} healthy logs {false} got a finding."]
    for key, name in GROUPS.items():
        group = [row for row in healthy if row.get("group") == key]
        if len(group) >= SHOWN:
            false = sum(row["result"] != "right" for row in group)
            lines.append(f"Of these, {len(group)} are {name}: {false} got one.")
    return lines


def summary() -> list[str]:
    """One row for each set of public logs: what it gave while it was unseen, and after mending."""
    heads = (
        "set",
        "of what",
        "date",
        "deaths",
        "right",
        "no cause",
        "a wrong one",
        "healthy",
        "with a finding",
    )
    lines = [f"| {' | '.join(heads)} | right later |", f"|---|---|---|{'--:|' * 7}"]
    for item in SETS.values():
        if not item.kind or (item.before and not item.score_before.is_file()):
            continue
        first = item.score_before if item.before else item.score
        score = json.loads(first.read_text(encoding="utf-8"))
        died = [row for row in score["rows"] if row["code"] not in ("none", "unclear")]
        healthy = [row for row in score["rows"] if row["code"] == "none"]
        results = Counter(row["result"] for row in died)
        cells = [results["right"], results["silent"], results["hedged"] + results["wrong"]]
        later = ""
        if item.before and item.score.is_file():
            rows = json.loads(item.score.read_text(encoding="utf-8"))["rows"]
            dead = [row for row in rows if row["code"] not in ("none", "unclear")]
            later = f"{100 * sum(row['result'] == 'right' for row in dead) / len(dead):.0f} %"
        shares = " | ".join(f"{100 * cell / len(died):.0f} %" for cell in cells)
        found = sum(row["result"] != "right" for row in healthy)
        row = [item.name, item.kind, score["date"], len(died), shares, len(healthy), found, later]
        lines.append(f"| {' | '.join(map(str, row))} |")
    return lines


def page() -> list[str]:
    """The results of every set that was scored, with their date."""
    lines: list[str] = []
    shown = []
    for item in SETS.values():
        shown += [(item.before, item.score_before)] if item.before else []
        shown.append((item.title, item.score))
    for title, path in shown:
        if path.is_file():
            score = json.loads(path.read_text(encoding="utf-8"))
            died = sum(row["code"] not in ("none", "unclear") for row in score["rows"])
            commit = f", commit {score['commit']}" if "commit" in score else ""
            lines += ["", f"{score['date']}{commit}, {title} ({died} deaths):", ""]
            lines += table(score["rows"])
            wrong = [
                row for row in score["rows"] if row["result"] in ("wrong", "hedged", "silent") and "why" in row
            ]
            lines += ["", "What was not right:", *[f"- {row['why']}" for row in wrong]] if wrong else []
    return lines[1:]


def _line(name: str, rows: list[dict[str, Any]]) -> str:
    results = Counter(row["result"] for row in rows)
    cells = [
        f"{results[key]} ({100 * results[key] / len(rows):.0f} %)"
        for key in ("right", "silent", "hedged", "wrong")
    ]
    return f"| {name} | {len(rows)} | {' | '.join(cells)} |"


def main() -> None:
    """Score a part, print what is not right, and write the page for the sealed one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--texts", type=Path, help="folder of ID.log; without it the skeletons are read")
    parser.add_argument("--sealed", action="store_true", help="score the sealed part and write the pages")
    parser.add_argument("--set", choices=SETS, default="first", help="which set of logs")
    parser.add_argument("--page", action="store_true", help="only write the pages from the kept scores")
    arguments = parser.parse_args()
    if arguments.page:
        write_page()
        return
    if SETS[arguments.set].writers:
        with tarfile.open(COMPOSED) as archive, tempfile.TemporaryDirectory() as scratch:
            archive.extractall(scratch, filter="data")
            score(arguments, composed(Path(scratch), arguments.set), Path(scratch))
        return
    entries = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    entries = [entry for entry in entries if entry.get("set", "first") == arguments.set]
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.texts or Path(scratch)
        if arguments.texts is None:
            for entry in entries:
                (folder / f"{entry['id']}.log").write_text(entry["skeleton"] + "\n", encoding="utf-8")
        score(arguments, entries, folder)


def composed(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of the logs that the writers of a set composed."""
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        {**row, "set": name, "form": "composed"} for row in rows if row["id"].startswith(SETS[name].writers)
    ]


def score(arguments: argparse.Namespace, entries: list[dict[str, Any]], folder: Path) -> None:
    """Score the part that was asked for; the sealed one is kept, if its texts are read."""
    if SETS[arguments.set].part is not Part.WHOLE:
        entries = [entry for entry in entries if sealed(entry) == arguments.sealed]
    rows = verdicts(entries, folder)
    if not rows:
        sys.exit(f"{folder}: no text of the corpus in it (ID.log)")
    if not arguments.sealed:
        for row in rows:
            if row["result"] != "right":
                print(row)
    print("\n".join(table(rows)))
    if arguments.sealed and (arguments.texts is not None or SETS[arguments.set].writers):
        git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        machine = {"date": date.today().isoformat(), "machine": f"{platform.system()} {platform.machine()}",
                   "python": platform.python_version(), "commit": commit}  # fmt: skip
        text = json.dumps({**machine, "rows": rows}, indent=1) + "\n"
        SETS[arguments.set].score.write_text(text, encoding="utf-8")
        write_page()


def write_page() -> None:
    """Write the kept results between the markers of both pages."""
    for path, lines in ((SUMMARY, summary()), (PAGE, page())):
        text = path.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        path.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
