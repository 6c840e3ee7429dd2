"""The benchmark of the search runs on a few small clusters."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_scores_the_search_and_the_two_other_rules(tmp_path):
    out = tmp_path / "score.json"
    subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "preflight_search.py"), "--seeds", "known", "--sizes", "16", "--times", "0.05", "--only", "calm", "--json", str(out)],
        check=True, timeout=100, cwd=ROOT,
    )  # fmt: skip
    own, *others = json.loads(out.read_text())
    assert own["rule"] == "gpudoctor" and own["found"] == own["faults"] and own["right"] == own["accusations"]
    assert len(others) == 2 and all(row["found"] <= row["faults"] for row in others)
