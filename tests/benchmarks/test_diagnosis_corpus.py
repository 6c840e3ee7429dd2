"""The corpus of sick and well programs: whole, marked, and a sample of it diagnosed."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import gpudoctor

CORPUS = Path(__file__).parents[2] / "benchmarks" / "diagnosis"


@pytest.fixture
def corpus(monkeypatch):
    """Imports modules of the corpus by name, as its programs do."""
    monkeypatch.syspath_prepend(str(CORPUS))
    names = ("ailments", "score", "skeletons")
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def test_every_program_is_python_with_one_cause(corpus):
    ailments, skeletons = corpus("ailments"), corpus("skeletons")
    assert len(ailments.AILMENTS) >= 30
    for ailment in ailments.AILMENTS:
        for style in skeletons.STYLES:
            sick, well = (skeletons.fill(style, places) for places in (ailment.sick, ailment.well))
            ast.parse(sick)
            ast.parse(well)
            assert sick != well
            assert well.count("# sick") == 0, ailment.name


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the programs train with torch")
@pytest.mark.parametrize(
    ("name", "style", "state"), [("exception", "plain", "sick"), ("zero-grad-missing", "classes", "sick")]
)
def test_a_sample_is_diagnosed(corpus, monkeypatch, name, style, state):
    ailment = next(item for item in corpus("ailments").AILMENTS if item.name == name)
    score = corpus("score")

    def forked(words, *, cwd, timeout, **_):
        assert words[:3] == [sys.executable, "-m", "gpudoctor.cli"]
        return gpudoctor(*words[3:], cwd=cwd, timeout=timeout, trainings=1)

    started = SimpleNamespace(run=forked, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(score, "subprocess", started)
    outcome = score.run_one(ailment, style, state, None)
    assert outcome.error == ""
    assert outcome.hit and outcome.line is not False
