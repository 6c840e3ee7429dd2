"""Writes the tables of docs/preflight.md from what the two benchmarks measured.

python benchmarks/preflight_page.py       after preflight_search.py --json and preflight_faults.py
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "data"
PAGE = ROOT / "docs" / "preflight.md"
RULES = {
    "gpudoctor": "gpudoctor",
    "two rounds": "two rounds, twice the median (as DLRover does)",
    "second pass": "a second pass, 80 % of nominal (as Google's CHS does)",
}


def search_table(found: dict[str, Any]) -> list[str]:
    """A row for each noise and rule."""
    lines = [
        "| noise | rule | faults found | accusations right | false in 10,000 node tests | rounds, median |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in found["rows"]:
        rule = next((words for name, words in RULES.items() if row["rule"].startswith(name)), row["rule"])
        right = f"{row['right']} of {row['accusations']}" if row["accusations"] else "none made"
        lines.append(
            f"| {row['noise']} | {rule} | {row['found']} of {row['faults']} | {right} | "
            f"{row['false_per_10000_node_tests']:g} | {row['rounds_median']:g} |"
        )
    machine = found["machine"]
    return [
        *lines,
        "",
        f"{machine['date']}, Python {machine['python']}, {machine['cpus']} CPUs ({machine['cpu']}).",
    ]


def faults_table(found: dict[str, Any]) -> list[str]:
    """A row for each fault: whether it was shown, in which words, how long it took."""
    lines = ["| fault | named | what was seen | seconds |", "|---|---|---|--:|"]
    for row in found["faults"]:
        named = "yes" if row["shown"] else "**no**"
        if row["fault"] == "none":
            named = "nothing, rightly" if row["shown"] else "**a false finding**"
        lines.append(f"| {row['fault']} | {named} | {_seen(row)} | {row['seconds']:.0f} |")
    left = sum(row["left_running"] for row in found["faults"])
    shown = sum(row["shown"] for row in found["faults"])
    return [
        *lines,
        "",
        f"{shown} of {len(found['faults'])} are right; {left} processes were left running. {found['date']}, "
        f"{found['nodes']} namespaces, {found['megabits']:g} Mbit/s a node.",
    ]


def _seen(row: dict[str, Any]) -> str:
    parts = [
        f"{item['accused']} {', '.join(map(str, item['nodes']))}: {item['aspect']}"
        + (f" at {100 * item['share']:.0f} % of its peers" if item["share"] else "")
        for item in row.get("accusations", ())
    ]
    parts += row.get("losses", ())
    text = "; ".join(parts[:2]) or "; ".join(row.get("said", ())[:1])
    return text.replace("|", "/").replace("\n", " ")[:160]


def main() -> None:
    """Write both tables between their markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("search", search_table), ("faults", faults_table)):
        path = DATA / f"preflight-{name}.json"
        if not path.is_file():
            print(f"{path.name} is missing: its table stays")
            continue
        begin, end = f"<!-- preflight_page.py {name} begins -->", f"<!-- preflight_page.py {name} ends -->"
        before, after = text.partition(begin)[0], text.partition(end)[2]
        rows = table(json.loads(path.read_text(encoding="utf-8")))
        text = "\n".join([f"{before}{begin}", *rows, f"{end}{after}"])
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
