"""Writes the tables of docs/preflight.md from what the two benchmarks measured.

python benchmarks/preflight_page.py   after preflight_search.py --json, preflight_faults.py, preflight_scale.py
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
_LONGEST = 200
"""Characters of a cell, which ends with a whole sentence."""


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
    lines = ["| fault | named | what was said | seconds |", "|---|---|---|--:|"]
    for row in found["faults"]:
        if "skipped" in row:
            lines.append(f"| {row['fault']} | not tried | {row['skipped']} | |")
            continue
        named = "yes" if row["shown"] else "**no**"
        if row.get("well", row["fault"] == "none") and not row.get("findings"):
            named = "nothing, rightly"
        elif row["fault"] == "none":
            named = "**a false finding**"
        lines.append(f"| {row['fault']} | {named} | {_seen(row)} | {row['seconds']:.0f} |")
    left = sum(row["left_running"] for row in found["faults"])
    tried = [row for row in found["faults"] if "skipped" not in row]
    shown = sum(row["shown"] for row in tried)
    return [
        *lines,
        "",
        f"{shown} of {len(tried)} are right; {left} processes were left running. {found['date']}, "
        f"{found['nodes']} namespaces, {found['megabits']:g} Mbit/s a node.",
    ]


def scale_table(found: dict[str, Any]) -> list[str]:
    """A row for each number of nodes, mode and case."""
    lines = [
        "| nodes | mode | case | seconds | rounds | CPU | messages in, out | MB in, out | named |",
        "|--:|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in found["rows"]:
        named = "right" if row["right"] else "**wrong**"
        lines.append(
            f"| {row['nodes']} | {row['mode']} | {row['case']} | {row['seconds']:.0f} | "
            f"{sum(row['rounds'].values())} | {row['coordinator_cpu_seconds']:.1f} s | "
            f"{row['messages_in']:,}, {row['messages_out']:,} | "
            f"{row['bytes_in'] / 1e6:.1f}, {row['bytes_out'] / 1e6:.1f} | {named} |"
        )
    return [*lines, "", f"{found['date']}, Python {found['python']}, {found['cpus']} CPUs."]


def _seen(row: dict[str, Any]) -> str:
    """What the report says: the gravest finding alone, else what the refused rank printed, else the verdict."""
    said = [f"{item['code']}: {item['message']}" for item in row.get("findings", ())] or row.get("said", ())
    said = said or [row.get("verdict", "")]
    text = said[0].replace("|", "/").replace("\n", " ")
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(". ")[0] + "."


def main() -> None:
    """Write the tables between their markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("search", search_table), ("faults", faults_table), ("scale", scale_table)):
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
