"""The page of what was judged by eye says what its data say."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_data_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "eyes_on", raising=False)
    import eyes_on

    made = eyes_on.section(json.loads(eyes_on.DATA.read_text(encoding="utf-8")))
    assert f"{eyes_on.BEGIN}\n{made}\n{eyes_on.END}" in eyes_on.PAGE.read_text(encoding="utf-8")
