"""The example scripts: one has what it says it has, its twin has nothing."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from command import gpudoctor
from forks import own_environment, zygote
from probed import forked

EXAMPLES = Path(__file__).parents[2] / "examples"
AILMENTS = {"DATA001", "OBS001", "OBS002", "OBS005", "SYNC001", "SYNC002"}


def codes(script):
    """The codes of findings that stand in the script."""
    result = gpudoctor("check", str(EXAMPLES / script), "--format", "json")
    report = json.loads(result.stdout)
    return {
        finding["code"]
        for finding in report["findings"]
        if any(str(item.get("path", "")).endswith(script) for item in finding["evidence"])
    }


@pytest.mark.slow
def test_the_sick_script_is_sick():
    assert codes("train_crops.py") >= AILMENTS


def test_its_twin_is_well():
    assert codes("train_crops_well.py") == set()


@pytest.mark.parametrize("job", ["slurm/train.sbatch", "torchrun/launch.sh", "kubernetes/train-job.yaml"])
def test_the_job_scripts_that_the_readme_shows_are_accepted(job):
    result = gpudoctor("check", str(EXAMPLES / job), "--format", "json")
    found = {(finding["code"], finding["severity"]) for finding in json.loads(result.stdout)["findings"]}
    assert result.returncode == 0
    # What the machine of the test lacks is not the example's.
    assert {code for code, _ in found if not code.startswith(("GPU", "ENV001", "ENV002", "ENV003"))} == set()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch here")
def test_the_twin_goes_on_where_it_was_stopped(tmp_path):
    def run(epochs):
        words = ["--data", str(tmp_path / "data"), "--crops", "32", "--size", "16", "--workers", "0"]
        words += ["--epochs", str(epochs), "--resume"]
        script = EXAMPLES / "train_crops_well.py"
        ended = zygote("zygote.py").run(forked(script, words, own_environment(), said=tmp_path))
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert [line[:8] for line in run(1).splitlines()[1:]] == ["epoch 0:"]
    assert [line[:8] for line in run(2).splitlines()[1:]] == ["epoch 1:"]
