"""The example scripts: one has what it says it has, its twin has nothing."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
AILMENTS = {"DATA001", "MEM003", "OBS001", "OBS002", "OBS005", "SYNC001", "SYNC002"}


def codes(script):
    """The codes of findings that stand in the script."""
    command = [sys.executable, "-m", "gpudoctor", "check", str(EXAMPLES / script), "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    report = json.loads(result.stdout)
    return {
        finding["code"]
        for finding in report["findings"]
        if any(str(item.get("path", "")).endswith(script) for item in finding["evidence"])
    }


def test_the_sick_script_is_sick():
    assert codes("train_crops.py") >= AILMENTS


def test_its_twin_is_well():
    assert codes("train_crops_well.py") == set()
