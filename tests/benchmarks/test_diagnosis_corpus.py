"""The corpus of sick and well programs: whole and marked."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[2] / "benchmarks" / "diagnosis"


@pytest.fixture
def corpus(monkeypatch):
    """Imports modules of the corpus by name, as its programs do."""
    monkeypatch.syspath_prepend(str(CORPUS))
    names = ("ailments", "skeletons")
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
