"""Puts results of `score.py` together: one data file, and the page that shows it.

    python benchmarks/diagnosis/page.py --ours FILE... --rival FILE... --machine WORDS --date YYYY-MM-DD
    python benchmarks/diagnosis/page.py            the page again, from the data file

Of a program that stands in several files the last result counts.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from ailments import AILMENTS
from skeletons import STYLES

ROOT = Path(__file__).parents[2]
DATA = ROOT / "benchmarks" / "data" / "diagnosis-score.json"
PUBLIC = {
    "mended with": DATA.with_name("public-faults-mend.json"),
    "mended with, later": DATA.with_name("public-faults-mend-2.json"),
    "scored once": DATA.with_name("public-faults-scored.json"),
    "scored once, a day later": DATA.with_name("public-faults-scored-2.json"),
    "scored once, later that day": DATA.with_name("public-faults-scored-3.json"),
    "scored once, four days later": DATA.with_name("public-faults-scored-4.json"),
    "scored once, later on the fourth day": DATA.with_name("public-faults-scored-5.json"),
}
"""Results of `benchmarks/public_faults.py --write`."""
PAGE = ROOT / "docs" / "diagnosis.md"
_HEAD = """# The diagnosis, scored

{count} programs: {ailments} ailments in two styles each (a plain loop; functions, classes and a `main`). Each
is there sick, and as a well twin that does the same work in good order. They are in
[`benchmarks/diagnosis`](../benchmarks/diagnosis), written from the catalogue's definitions. Each runs for
seconds on a CPU.

- A *hit*: the first finding on a sick program names the ailment.
- A *right line*: the guilty line is among that finding's places.
- A *false alarm*: a warning or an error on a well twin.

Measured on {date}. Machine: {machine}. Versions: {versions}. `benchmarks/diagnosis/page.py` makes the page from
[`diagnosis-score.json`](../benchmarks/data/diagnosis-score.json).
"""
_RIVAL = """train-doctor looks for the speed of a run. It says nothing about losses, gradients, memory or
modes, so most of the rows are outside its task. They are counted all the same, since a user does not know
beforehand what is wrong. Its words are read generously:

- A finding counts for every ailment that it could mean.
- A note that the command ended early counts as having named the death.
- It suggests `torch.compile` for almost every program. That counts neither as a first place nor as an alarm.

It names no lines. It stops after 50 steps and two seconds by default. For programs that die its window is the
whole run.
"""
_PUBLIC = """## Programs by other authors

These are public programs, made to run on a CPU with small made-up data. Each runs as it is, and with faults
that a person put in. The expected codes were written before gpudoctor ran. *Strict*: the cause comes first,
and every finding above a note is true. Only the programs that were scored once show how right gpudoctor is on
unseen programs. The others were used to improve it. [`public_faults.py`](../benchmarks/public_faults.py) ran
them.
"""
_CAUTION = """The checks were improved on these programs, and each ran once. Before that, 68 of the first 74
sick ones had the right finding first. Two of the other six were too little ill to be found, and were made
worse.

55 programs in other shapes are not part of the table. They are iterable sets, generators, loops in other
modules, and runs of 40 to 60 steps. No check had seen them. They gave 37 of 42 first places and 4 alarms on
13 well ones. What they showed was fixed too. Notes are not alarms. The two-rank twins lack a sampler on
purpose: that finding and its consequences are not alarms.
"""


def merged(files: list[Path]) -> list[dict[str, Any]]:
    """Results of several files, in the order of the corpus."""
    found = {}
    for path in files:
        for item in json.loads(path.read_text(encoding="utf-8")):
            found[item["ailment"], item["style"], item["state"]] = item
    order = [(one.name, style, state) for one in AILMENTS for style in STYLES for state in ("sick", "well")]
    return [found[key] for key in order if key in found]


def share(count: int, of: int) -> str:
    """A count of so many, with its share."""
    return f"{count}/{of} ({count / of:.0%})" if of else "-"


def figures(results: list[dict[str, Any]]) -> list[str]:
    """First place, found at all, right line, false alarms."""
    sick = [item for item in results if item["state"] == "sick"]
    well = [item for item in results if item["state"] == "well"]
    lined = [item for item in sick if item["line"] is not None]
    return [
        share(sum(bool(item["hit"]) for item in sick), len(sick)),
        share(sum(bool(item["found"]) for item in sick), len(sick)),
        share(sum(bool(item["line"]) for item in lined), len(lined)) if lined else "names no lines",
        share(sum(bool(item["alarms"]) for item in well), len(well)),
    ]


def page(data: dict[str, Any]) -> str:
    """The page, as Markdown."""
    ours, theirs = data["gpudoctor"], data["train-doctor"]
    names = list(dict.fromkeys(item["ailment"] for item in ours))
    lines = [_HEAD.format(count=len(ours), ailments=len(names), **data["how"])]
    lines += ["| | gpudoctor | train-doctor |", "|---|---|---|"]
    words = (
        "first place",
        "found at all",
        "right line, of those found and marked",
        "false alarms on well twins",
    )
    lines += [f"| {a} | {b} | {c} |" for a, b, c in zip(words, figures(ours), figures(theirs), strict=True)]
    remark = data["how"].get("remark")
    lines += ["", *([remark, ""] if remark else []), _CAUTION, _RIVAL, "## By ailment", ""]
    lines += [
        "| ailment | codes | plain | classes | alarms on well twins | train-doctor |",
        "|---|---|---|---|---|---|",
    ]
    codes = {one.name: one.codes for one in AILMENTS}
    for name in names:
        mine = {(item["style"], item["state"]): item for item in ours if item["ailment"] == name}
        other = [item for item in theirs if item["ailment"] == name]
        cells = [_sick(mine.get((style, "sick"))) for style in STYLES]
        alarms = [code for style in STYLES for code in mine.get((style, "well"), {}).get("alarms", ())]
        lines.append(
            f"| {name} | {', '.join(codes[name])} | {' | '.join(cells)} | "
            f"{', '.join(dict.fromkeys(alarms)) or 'none'} | {_theirs(other)} |"
        )
    return "\n".join([*lines, "", *public({name: read(path) for name, path in PUBLIC.items()}), ""])


def read(path: Path) -> dict[str, Any]:
    """A data file."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def public(parts: dict[str, dict[str, Any]]) -> list[str]:
    """The section on public programs: figures of each part, then the rows of each."""
    lines = [
        _PUBLIC,
        "| | programs | faults | cause first | strict | named at all | false alarms, as they are |",
    ]
    lines.append("|---|--:|--:|---|---|---|---|")
    for name, part in parts.items():
        faults = [row for row in part["rows"] if row["fault"]]
        plain = [row for row in part["rows"] if not row["fault"]]
        cells = [share(sum(row[key] for row in faults), len(faults)) for key in ("first", "strict", "any")]
        alarms = share(sum(bool(row["wrong"]) for row in plain), len(plain))
        lines.append(f"| {name} | {len(plain)} | {len(faults)} | {' | '.join(cells)} | {alarms} |")
    for name, part in parts.items():
        lines += ["", f"### Those that were {name}", "", part["note"], ""]
        lines += ["| program | fault | expected | found above a note | |", "|---|---|---|---|---|"]
        for row in part["rows"]:
            mark = (
                "strict"
                if row["strict"]
                else "first"
                if row["first"]
                else "behind"
                if row["any"]
                else "**missed**"
            )
            if not row["fault"]:
                mark = "**false alarm**" if row["wrong"] else "well"
            cells = (
                row["project"],
                row["fault"] or "as it is",
                *(" ".join(row[key]) or "-" for key in ("expected", "found")),
            )
            lines.append(f"| {' | '.join(cells)} | {mark} |")
    return lines


def _sick(item: dict[str, Any] | None) -> str:
    """What came first on a sick program, and whether its line was right."""
    if item is None:
        return "not run"
    first = item["findings"][0][0] if item["findings"] else "nothing"
    if not item["hit"]:
        return f"**missed**: {first}" + (", found behind it" if item["found"] else "")
    return first + {True: ", line", False: ", **another line**", None: ""}[item["line"]]


def _theirs(items: list[dict[str, Any]]) -> str:
    if not items:
        return "not run"
    sick = [item for item in items if item["state"] == "sick"]
    alarms = sorted({name for item in items for name in item["alarms"]})
    hits = f"{sum(bool(item['hit']) for item in sick)} of {len(sick)}"
    return hits + (f"; alarm: {', '.join(alarms)}" if alarms else "")


def main() -> int:
    """Write the data file where results are given, and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ours", "rival"):
        parser.add_argument(f"--{name}", nargs="*", type=Path, default=[], metavar="FILE")
    for name in ("machine", "date", "versions", "remark"):
        parser.add_argument(f"--{name}", metavar="WORDS")
    given = parser.parse_args()
    if given.ours:
        how = {name: getattr(given, name) for name in ("machine", "date", "versions", "remark")}
        data = {"how": how, "gpudoctor": merged(given.ours), "train-doctor": merged(given.rival)}
        DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
