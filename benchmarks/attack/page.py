"""Writes docs/reliability.md from benchmarks/data/attack.json.

python benchmarks/attack --output benchmarks/data/attack.json
python benchmarks/attack/page.py
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = ROOT / "benchmarks" / "data" / "attack.json"
PAGE = ROOT / "docs" / "reliability.md"

_HEAD = """# Reliability

The table shows what was done to break gpudoctor, how often, and what broke. `python benchmarks/attack` makes
it. A seed draws every attempt. Each attempt asserts what must happen:

- the exit code, with a sentence and no traceback;
- a time limit and a memory limit;
- the bytes of a program's output, and the files that it leaves.

Measured on {date} with Python {python}, seed {seed}, in {minutes:.0f} minutes. Machine: {machine}. Run it
yourself:

    pip install -e '.[test]'
    python benchmarks/attack --broken

| what | tried | held | broken |
|---|---:|---:|---:|
"""
_VERSIONS = """The row of programs also ran in other interpreters (`--only unharmed --python PATH`). The same
gpudoctor recorded them:

| interpreter | torch | tried | held | broken |
|---|---|---:|---:|---:|
"""
_TAIL = """[what-run-changes.md](what-run-changes.md) says what a program can find when it looks for us.
[design.md](design.md) says how a file from outside is bounded. The limits are in
`gpudoctor/model/read_limits.py`.
"""


def page(data: dict[str, Any]) -> str:
    """The page."""
    machine = data["machine"]
    text = _HEAD.format(
        machine=machine["name"],
        date=machine["date"],
        python=machine["python"],
        seed=machine["seed"],
        minutes=machine["seconds"] / 60,
    )
    rows = data["groups"]
    for name, row in rows.items():
        text += f"| {name} | {row['tried']:,} | {row['held']:,} | {row['broken']:,} |\n"
    total = {key: sum(row[key] for row in rows.values()) for key in ("tried", "held", "broken")}
    text += f"| **together** | **{total['tried']:,}** | **{total['held']:,}** | **{total['broken']:,}** |\n"
    broken = [(name, item) for name, row in rows.items() for item in row["of"]]
    if broken:
        text += "\nWhat broke:\n\n"
        text += "".join(f"- {name}: {item['name']}: {item['why']}\n" for name, item in broken)
    if data.get("interpreters"):
        text += _VERSIONS
        for row in data["interpreters"]:
            cells = (f"Python {row['python']}", row["torch"], row["tried"], row["held"], row["broken"])
            text += "| " + " | ".join(map(str, cells)) + " |\n"
    return text + _TAIL


def main() -> None:
    """Write it."""
    PAGE.write_text(page(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
