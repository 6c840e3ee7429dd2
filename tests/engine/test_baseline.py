"""A baseline: an old project starts at zero, and only new findings count."""

import json
import shutil

import pytest
from command import gpudoctor

SICK = """\
import torch

def train(model, loader, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        total += loss
        torch.cuda.empty_cache()
    return total
"""


def codes(done):
    return sorted(item["code"] for item in json.loads(done.stdout)["findings"])


def check(folder, *words):
    select = ("--preview", "--select", "MEM003,SYNC002", "--format", "json")
    return gpudoctor("check", "train.py", *select, *words, cwd=folder)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The script and its baseline, as the command writes it: once for all tests, each has a copy."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "train.py").write_text(SICK)
    assert codes(check(folder)) == ["MEM003", "SYNC002"]
    done = gpudoctor("check", "train.py", "--preview", "--write-baseline", "known.json", cwd=folder)
    assert done.returncode == 0 and "findings written" in done.stderr
    return folder


@pytest.fixture
def project(known, tmp_path):
    return shutil.copytree(known, tmp_path, dirs_exist_ok=True)


def test_known_findings_are_silenced_and_counted(project):
    done = check(project, "--baseline", "known.json")
    report = json.loads(done.stdout)
    assert report["findings"] == [] and report["summary"]["silenced"] == 2


def test_a_second_finding_like_the_first_is_new(project):
    (project / "train.py").write_text(
        SICK.replace("empty_cache()\n", "empty_cache()\n        torch.cuda.empty_cache()\n")
    )
    assert "SYNC002" in codes(check(project)), "the ailment is still one"
    (project / "other.py").write_text(SICK)
    done = gpudoctor(
        "check", "other.py", "--select", "SYNC002", "--format", "json", "--baseline", "known.json", cwd=project
    )
    assert codes(done) == ["SYNC002"], "another file is another finding"


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not a baseline file"), ('{"schema": "gpudoctor.baseline/1", "findings": [{}]}', "not a baseline file")],
)
def test_a_broken_baseline_is_a_sentence(project, text, said):
    (project / "known.json").write_text(text)
    done = check(project, "--baseline", "known.json")
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
