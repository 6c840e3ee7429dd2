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
import hashlib
import json
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.errors import DoctorError
from gpudoctor.model import Confidence, LogLine, Severity
from gpudoctor.model.report import Ranked
from gpudoctor.vitals.build_log_patient import admit_log, sort_left_behind

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "benchmarks" / "data" / "autopsy-corpus.jsonl"
COMPOSED = ROOT / "benchmarks" / "data" / "composed-logs.tar.xz"
WRITERS = {"composed": ("c", "d"), "composed-2": ("e",), "composed-3": ("f",)}
"""The first letters of the composed logs of each set."""
SCORES = {
    "composed-3": ROOT / "benchmarks" / "data" / "autopsy-score-composed-3.json",
    "composed-2": ROOT / "benchmarks" / "data" / "autopsy-score-composed-2.json",
    "composed": ROOT / "benchmarks" / "data" / "autopsy-score-composed.json",
    "fourteenth": ROOT / "benchmarks" / "data" / "autopsy-score-fourteenth.json",
    "thirteenth": ROOT / "benchmarks" / "data" / "autopsy-score-thirteenth.json",
    "twelfth": ROOT / "benchmarks" / "data" / "autopsy-score-twelfth.json",
    "eleventh": ROOT / "benchmarks" / "data" / "autopsy-score-eleventh.json",
    "tenth": ROOT / "benchmarks" / "data" / "autopsy-score-tenth.json",
    "ninth": ROOT / "benchmarks" / "data" / "autopsy-score-ninth.json",
    "eighth": ROOT / "benchmarks" / "data" / "autopsy-score-eighth.json",
    "seventh": ROOT / "benchmarks" / "data" / "autopsy-score-seventh.json",
    "sixth": ROOT / "benchmarks" / "data" / "autopsy-score-sixth.json",
    "fifth": ROOT / "benchmarks" / "data" / "autopsy-score-fifth.json",
    "fourth": ROOT / "benchmarks" / "data" / "autopsy-score-fourth.json",
    "third": ROOT / "benchmarks" / "data" / "autopsy-score-third.json",
    "second": ROOT / "benchmarks" / "data" / "autopsy-score-second.json",
    "first": ROOT / "benchmarks" / "data" / "autopsy-score.json",
}
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
BEFORE = {
    "composed-2": (
        "all logs of the third writer, before anything was mended with them",
        ROOT / "benchmarks" / "data" / "autopsy-score-composed-2-before.json",
    ),
    "composed-3": (
        "all logs of the fourth writer, before anything was mended with them",
        ROOT / "benchmarks" / "data" / "autopsy-score-composed-3-before.json",
    ),
    "thirteenth": (
        "all of the thirteenth set, before anything was mended with it",
        ROOT / "benchmarks" / "data" / "autopsy-score-thirteenth-before.json",
    ),
    "eleventh": (
        "all of the eleventh set, before anything was mended with it",
        ROOT / "benchmarks" / "data" / "autopsy-score-eleventh-before.json",
    ),
    "composed": (
        "the sealed half of the composed logs, before anything was mended",
        ROOT / "benchmarks" / "data" / "autopsy-score-composed-before.json",
    ),
    "tenth": (
        "the sealed half of the tenth set, before anything was mended",
        ROOT / "benchmarks" / "data" / "autopsy-score-tenth-before.json",
    ),
    "ninth": (
        "the sealed half of the ninth set, before anything was mended",
        ROOT / "benchmarks" / "data" / "autopsy-score-ninth-before.json",
    ),
    "fourth": (
        "the sealed half of the fourth set, unseen: files and threads that are new",
        ROOT / "benchmarks" / "data" / "autopsy-score-fourth-before.json",
    ),
}
"""Sealed halves, scored before anything was mended with the other half."""
GROUPS = {"many": "jobs of many ranks", "k8s": "Kubernetes", "kernel": "logs of the kernel", "slurm": "Slurm"}
"""Kinds of logs that the sixth set and those after it count apart, if they have at least ten of them."""
KINDS = {
    "fourteenth": "whole files and threads, of all kinds",
    "thirteenth": "whole files and threads, of all kinds",
    "twelfth": "whole files and threads, of all kinds",
    "eleventh": "whole files and threads, of all kinds",
    "tenth": "threads, of weak kinds",
    "ninth": "threads and files, of weak kinds",
    "eighth": "threads and files, of hard kinds",
    "seventh": "whole files, short ones",
    "sixth": "whole files, many ranks, kernels",
    "fifth": "whole files",
    "fourth": "files and threads",
    "third": "files and threads",
    "second": "whole files",
    "first": "threads, recomposed",
}
"""Of what the sets of public logs are."""
TITLES = {
    "composed-3": "the fourth writer's logs, later",
    "fourteenth": "the fourteenth set, unseen: whole files and threads of all kinds",
    "thirteenth": "the sealed half of the thirteenth set, after the other half was used for mending",
    "composed-2": "the sealed half of the third writer's logs, later",
    "twelfth": "the twelfth set, unseen: whole files and threads of all kinds",
    "eleventh": "the sealed half of the eleventh set, after the other half was used for mending",
    "composed": "the sealed half of the composed logs, after the other half was used for mending",
    "tenth": "the sealed half of the tenth set, after the other half was used for mending",
    "ninth": "the sealed half of the ninth set, after the other half was used for mending",
    "eighth": "the sealed half of the eighth set, unseen: logs of hard kinds",
    "seventh": "the seventh set, unseen: whole log files of repositories that are new here",
    "sixth": "the sixth set, unseen: whole log files of repositories that are new here",
    "fifth": "the fifth set, unseen: whole log files of repositories that are new here",
    "fourth": "the sealed half of the fourth set, after the other half was used for mending",
    "third": "the third set, unseen: whole log files and threads that are new here",
    "second": "the sealed half of whole log files of public repositories, as they are there",
    "first": "the sealed third of the first set",
}


def sealed(entry: dict[str, Any]) -> bool:
    """Whether an entry belongs to the part that was not looked at."""
    if entry.get("set") == "composed-3":
        return False
    if entry.get("set") in ("composed", "composed-2"):
        return not str(entry["id"]).startswith("d") and int(entry["id"][1:]) % 2 == 0
    if entry.get("set") in ("second", "fourth", "eighth", "ninth", "tenth", "eleventh", "thirteenth"):
        repository = "/".join(entry["url"].split("/")[3:5])
        return int(hashlib.sha256(repository.encode()).hexdigest(), 16) % 2 == 0
    return int(hashlib.sha256(entry["url"].encode()).hexdigest(), 16) % 3 == 0


def form_of(entry: dict[str, Any]) -> str:
    """How the text came here."""
    if entry.get("form") in ("composed", "recomposed"):
        return str(entry["form"])
    return "file" if "/blob/" in entry["url"] else "excerpt"


def verdicts(entries: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the command says of each text, beside what is settled: its first finding, and all that it names."""
    registry = load_registry()
    request = Request(registry=registry, selection=make_selection(registry, [], []))
    rows = []
    for entry in entries:
        path = folder / f"{entry['id']}.log"
        if not path.is_file():
            continue
        try:
            patient = admit_log(sort_left_behind([str(path)]), registry.log_messages())
        except DoctorError:
            findings: tuple[Ranked, ...] = ()
        else:
            findings = tuple(
                item
                for item in examine(patient, request).findings
                if item.finding.severity is not Severity.NOTE
            )
        first = findings[0].finding if findings else None
        said = first.code if first is not None else "none"
        sure = first is not None and first.confidence is Confidence.CONFIRMED
        line = (
            next((item.line for item in first.evidence if isinstance(item, LogLine)), None) if first else None
        )
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
    for name, kind in KINDS.items():
        if name in BEFORE and not BEFORE[name][1].is_file():
            continue
        first = BEFORE[name][1] if name in BEFORE else SCORES[name]
        score = json.loads(first.read_text(encoding="utf-8"))
        died = [row for row in score["rows"] if row["code"] not in ("none", "unclear")]
        healthy = [row for row in score["rows"] if row["code"] == "none"]
        results = Counter(row["result"] for row in died)
        cells = [results["right"], results["silent"], results["hedged"] + results["wrong"]]
        later = ""
        if name in BEFORE and SCORES[name].is_file():
            rows = json.loads(SCORES[name].read_text(encoding="utf-8"))["rows"]
            dead = [row for row in rows if row["code"] not in ("none", "unclear")]
            later = f"{100 * sum(row['result'] == 'right' for row in dead) / len(dead):.0f} %"
        shares = " | ".join(f"{100 * cell / len(died):.0f} %" for cell in cells)
        found = sum(row["result"] != "right" for row in healthy)
        row = [name, kind, score["date"], len(died), shares, len(healthy), found, later]
        lines.append(f"| {' | '.join(map(str, row))} |")
    return lines


def page() -> list[str]:
    """The results of every set that was scored, with their date."""
    lines: list[str] = []
    shown = []
    for name, path in SCORES.items():
        shown += [BEFORE[name]] if name in BEFORE else []
        shown.append((TITLES[name], path))
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
    parser.add_argument("--set", choices=SCORES, default="first", help="which set of logs")
    parser.add_argument("--page", action="store_true", help="only write the pages from the kept scores")
    arguments = parser.parse_args()
    if arguments.page:
        write_page()
        return
    if arguments.set in WRITERS:
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
    return [{**row, "set": name, "form": "composed"} for row in rows if row["id"].startswith(WRITERS[name])]


def score(arguments: argparse.Namespace, entries: list[dict[str, Any]], folder: Path) -> None:
    """Score the part that was asked for; the sealed one is kept, if its texts are read."""
    if arguments.set not in ("third", "fifth", "sixth", "seventh", "twelfth", "fourteenth"):
        entries = [entry for entry in entries if sealed(entry) == arguments.sealed]
    rows = verdicts(entries, folder)
    if not rows:
        sys.exit(f"{folder}: no text of the corpus in it (ID.log)")
    if not arguments.sealed:
        for row in rows:
            if row["result"] != "right":
                print(row)
    print("\n".join(table(rows)))
    if arguments.sealed and (arguments.texts is not None or arguments.set in WRITERS):
        git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        machine = {"date": date.today().isoformat(), "machine": f"{platform.system()} {platform.machine()}",
                   "python": platform.python_version(), "commit": commit}  # fmt: skip
        text = json.dumps({**machine, "rows": rows}, indent=1) + "\n"
        SCORES[arguments.set].write_text(text, encoding="utf-8")
        write_page()


def write_page() -> None:
    """Write the kept results between the markers of both pages."""
    for path, lines in ((SUMMARY, summary()), (PAGE, page())):
        text = path.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        path.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
