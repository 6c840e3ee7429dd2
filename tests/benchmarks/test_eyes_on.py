"""The page of what was judged by eye says what its data say."""

import importlib.util
import json
from collections import Counter
from pathlib import Path

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Reads
from gpudoctor.model.check import track_record

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_data_say():
    spec = importlib.util.spec_from_file_location("benchmark_eyes_on", ROOT / "benchmarks" / "eyes_on.py")
    assert spec is not None and spec.loader is not None
    eyes_on = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(eyes_on)
    assert f"{eyes_on.BEGIN}\n{eyes_on.page()}\n{eyes_on.END}" in eyes_on.PAGE.read_text(encoding="utf-8")


def test_every_check_carries_its_track_record():
    judged = Counter()
    for path in sorted((ROOT / "benchmarks" / "data").glob("eyes-on-*.json")):
        for item in json.loads(path.read_text(encoding="utf-8"))["judged"]:
            if item["severity"] != "note":
                judged[item["code"], item["verdict"]] += 1
    for code, check in load_registry().checks.items():
        record = track_record(check)
        if not check.reads & {Reads.SOURCE, Reads.CONFIG}:
            continue  # its half that read the source is gone
        assert (record.right, record.wrong) == (judged[code, "right"], judged[code, "wrong"]), code
