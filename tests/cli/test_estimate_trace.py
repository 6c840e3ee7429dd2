"""`gpudoctor estimate --trace` end to end: the child, both answers side by side, and what it refuses."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
from forks import fork_trainings
from tiny_models import TINY

from gpudoctor.cli import estimate as command
from gpudoctor.cli import main
from gpudoctor.estimate import estimate

LIBRARIES = ("transformers", "peft")
SCHEMA = Path(__file__).parents[2] / "gpudoctor" / "report" / "estimate-1.schema.json"


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_own_card", lambda: (None, ""))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def ask(capsys):
    def run(*words):
        code = main(["estimate", *map(str, words)])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


needs_libraries = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", *LIBRARIES))), reason="a package that it asks for is not installed"
)


@needs_libraries
@pytest.mark.slow
def test_formulas_and_trace_are_near(ask, monkeypatch):
    """A job of seven billion parameters: the two are independent, and within 5 % everywhere."""
    fork_trainings(monkeypatch, 1, LIBRARIES)
    words = ("--model", "7b", "--method", "lora", "--gpu", "24GiB", "--trace")
    code, out, err = ask(*words, "--format", "json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    jsonschema.validate(report, json.loads(SCHEMA.read_text("utf-8")))
    (traced,) = report["traced"]
    assert traced["method"] == "lora" and traced["layers"] == 32 and max(traced["depths"]) < 6
    assert traced["parameters"] > report["model"]["parameters"]  # and the adapters
    assert report["total_bytes"] == traced["total_bytes"] and report["fits"]
    formulas = {each.name: each.bytes for each in estimate("7b", method="lora").instants}
    both = {each["name"]: each["bytes"] for each in report["instants"] if each["name"] in formulas}
    assert both.keys() >= {"load", "loss", "layer", "step"}
    for name, found in both.items():
        assert formulas[name] == pytest.approx(found, rel=0.05), name


@needs_libraries
@pytest.mark.slow
def test_an_architecture_that_no_formula_knows(ask, monkeypatch, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY["biogpt"]), encoding="utf-8")
    code, _, err = ask("--model", path, "--method", "full", "--seq", 32)
    assert code == 2 and "biogpt" in err and "--trace" in err
    fork_trainings(monkeypatch, 1, LIBRARIES)
    words = ("--model", path, "--method", "full", "--seq", 32, "--trace")
    code, out, err = ask(*words)
    assert (code, err) == (0, "")
    assert "gpudoctor has no formula for the architecture biogpt" in out
    assert "traced" in out and "at the optimizer step" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train.py", "--trace"), "train.py: no script trains; give a config"),
        (("--model", "7b", "--trace", "--fit", "--gpu", "24GiB"), "--fit works on formulas"),
        (("--model", "7b", "--", "--lr", "1"), "runs no script"),
    ],
)
def test_wrong_usage(ask, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n", encoding="utf-8")
    code, out, err = ask(*words)
    assert (code, out) == (2, "")
    assert said in err


def test_without_torch_it_says_what_to_install(ask, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found(name) if name != "torch" else None)
    code, out, err = ask("--model", "7b", "--trace")
    assert (code, out) == (2, "")
    assert "pip install torch transformers peft" in err and "torch cannot be found" in err


@needs_libraries
def test_a_job_that_only_formulas_know(ask):
    code, out, err = ask("--model", "7b", "--method", "lora", "--gpus", 8, "--parallel", "zero3", "--trace")
    assert (code, out) == (2, "")
    assert "--parallel zero3" in err
