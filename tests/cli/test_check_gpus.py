"""The whole command on made-up machines: `gpudoctor check` against the fake driver."""

import json
import os

import pytest
from command import gpudoctor
from fake_nvml import SCENARIOS, compiler
from fake_nvml import run as fake

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler to build the fake driver with")
CHOSEN = ("healthy 8x H100", "row remap failed", "one GPU lost", "driver crashes", "driver hangs at start")


def run(scenario, tmp_path, *arguments):
    """The command is forked; what asks the driver is an interpreter of its own, in this environment."""
    environment = fake.environment(scenario, tmp_path / "root", tmp_path)
    given = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    words = ("check", "--select", "GPU,ENV001", "--wait", "1" if "hangs" in scenario.name else "3", *arguments)
    return gpudoctor(*words, cwd=tmp_path, timeout=120, **given)


@pytest.fixture(autouse=True)
def every_card(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize("name", CHOSEN)
def test_the_command_says_what_the_checks_say(name, tmp_path):
    scenario = next(item for item in SCENARIOS if item.name == name)
    # GPU004 reads this machine's own kernel log.
    done = run(scenario, tmp_path, "--ignore", "GPU004", "--format", "json")
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    found = sorted(f"{item['code']} {item['severity']}" for item in report["findings"])
    # The container that the tests run in may turn an error of ENV001 into a note.
    assert [item.split()[0] for item in found] == [item.split()[0] for item in scenario.findings], done.stderr
    assert done.returncode == (1 if any(item.endswith("error") for item in found) else 0), done.stderr
    assert "Traceback" not in done.stderr


def test_the_text_names_gpu_verdict_and_remedy(tmp_path):
    scenario = next(item for item in SCENARIOS if item.name == "row remap failed")
    done = run(scenario, tmp_path)
    for words in ("GPU003", "memory-errors", "row remap failed", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,6,7"):
        assert words in done.stdout
