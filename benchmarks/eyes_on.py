"""Writes the part of docs/eyes-on.md about code that nobody had looked at, from its data.

    python benchmarks/eyes_on.py

The data, `benchmarks/data/eyes-on-ninth.json`, hold the projects with their commits, what `gpudoctor check`
found, and what a judge said of it. Ten scripts of an earlier set were read from end to end; what was found in
them is in `benchmarks/data/eyes-on-sixth.json`.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data" / "eyes-on-ninth.json"
READ = ROOT / "benchmarks" / "data" / "eyes-on-sixth.json"
PAGE = ROOT / "docs" / "eyes-on.md"
BEGIN, END = "<!-- eyes_on.py begins -->", "<!-- eyes_on.py ends -->"
SEVERITIES = ("error", "warning", "note")
JUDGED = ("error", "warning")
VERDICTS = ("right", "wrong", "debatable")
_HEAD = """{used} of {pool} projects were chosen by a hash of their names. The {pool} hold files with names of
training code, such as `train_lightning.py`, `train_lora.py` or `zero3.json`. They were picked to be varied, and
none had been named here before. {mend} others were for improving the checks. A few could not be fetched.

{files} scripts, notebooks, job scripts and configs were examined once, each by itself ({found} findings). One
judge opened the code and decided on {errors} and {warnings}. Notes were not judged. The judge, a language
model, did not know the checks, and had not improved them. {late}
"""
_FOOT = """
[`eyes-on-ninth.json`](../benchmarks/data/eyes-on-ninth.json) has every judgement with its reason. It also
has the addresses and commits of all {used} projects. A claim is debatable if it is true of the text, but:

- the job dies earlier by its own fault;
- only an option that nobody passes leads there;
- nobody can tell for which versions the job is written;
- the cost is negligible, or other lines cost more, so the remedy changes little.

Errors about removed names are judged for the versions below, unless the project pins an older one. The figures
are of {date}, commit {version:.8}, {machine}, Python {python}, torch {torch}, transformers {transformers}.
Nothing that they show had been fixed then. A figure after that needs other projects, and is not measured."""
_READ = """
### Ten scripts of an earlier set, read from end to end

A person who did not know the tool read ten scripts of an earlier set ({date}) from end to end. The person
wrote down {all} ailments ({sure} of them sure). gpudoctor then named {named} of them ({named_sure} of the
sure ones):

| of these | sure | named | likely | named |
|---|--:|--:|--:|--:|"""
_READ_FOOT = """
[`eyes-on-sixth.json`](../benchmarks/data/eyes-on-sixth.json) has the ailments of the ten scripts. Nobody read
scripts of the last set in this way."""


def section(data: dict[str, Any]) -> str:
    """The section, as Markdown."""
    found = {(item["severity"], item["code"]): item["found"] for item in data["found"]}
    judged = Counter((item["severity"], item["code"], item["verdict"]) for item in data["judged"])
    totals = Counter((item["severity"], item["verdict"]) for item in data["judged"])
    lines = [
        _HEAD.format(
            used=len(data["projects"]), pool=data["pool"], mend=data["mend"],
            files=data["files"]["scored"], found=sum(found.values()),
            errors=_of("error", found, totals), warnings=_of("warning", found, totals),
            late=data["late"],
        ),
        "| | judged | right | wrong | debatable |", "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    for severity in JUDGED:
        right, wrong, debatable = (totals[severity, verdict] for verdict in VERDICTS)
        all_ = right + wrong + debatable
        lines.append(
            f"| {severity}s | {all_} | {right} | {wrong} ({100 * wrong / max(all_, 1):.0f} %) | {debatable} |"
        )
    lines += [
        "",
        "| Ailment | severity | found | judged | right | wrong | debatable |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for (severity, code), count in found.items():
        parts = [judged[severity, code, verdict] for verdict in VERDICTS]
        lines.append(f"| {code} | {severity} | {count} | {sum(parts)} | {' | '.join(map(str, parts))} |")
    lines.append(_FOOT.format(used=len(data["projects"]), **data["measured"]))
    return "\n".join(lines)


def reading(data: dict[str, Any]) -> str:
    """The part about the scripts of an earlier set that were read from end to end, as Markdown."""
    read = data["read"]
    named = [item for item in read if item["named"]]
    sure = [item for item in read if item["sure"]]
    lines = [
        _READ.format(
            date=data["measured"]["date"],
            all=len(read),
            sure=len(sure),
            named=len(named),
            named_sure=sum(item["sure"] for item in named),
        )
    ]
    for severity in SEVERITIES:
        cells = []
        for certain in (True, False):
            those = [item for item in read if item["severity"] == severity and item["sure"] is certain]
            cells += [str(len(those)), str(sum(item["named"] for item in those))]
        lines.append(f"| {severity}s | {' | '.join(cells)} |")
    missed = Counter(item["code"] or "no code for it" for item in read if not item["named"])
    lines += ["", "Ailments that were not named, by their code:", "", "| not named | code |", "|--:|---|"]
    for number in sorted(set(missed.values()), reverse=True):
        codes = ", ".join(code for code, count in missed.items() if count == number)
        lines.append(f"| {number} | {codes} |")
    lines.append(_READ_FOOT)
    return "\n".join(lines)


def _of(severity: str, found: dict[tuple[str, str], int], totals: Counter[tuple[str, str]]) -> str:
    """How many findings of a severity were judged: `every error`, `14 of 53 warnings`."""
    seen = sum(totals[severity, verdict] for verdict in VERDICTS)
    there = sum(count for (kind, _), count in found.items() if kind == severity)
    return f"every {severity}" if seen == there else f"{seen} of {there} {severity}s"


def page() -> str:
    """The text between the markers of the page, from both data files."""
    return (
        section(json.loads(DATA.read_text(encoding="utf-8")))
        + "\n"
        + reading(json.loads(READ.read_text(encoding="utf-8")))
    )


def main() -> None:
    """Put the section into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{page()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
