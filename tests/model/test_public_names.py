"""The package's names are imported when they are asked for; the three lists of them agree."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpudoctor.model as model


def test_every_name_is_there_and_comes_from_the_module_that_the_type_checker_sees():
    tree = ast.parse(Path(model.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {node.module for node in block.body} == {f"gpudoctor.model.{home}" for home in model._HOMES}
    assert set(model.__all__) == set(model._MODULE_OF)
    for name in model.__all__:
        assert getattr(model, name) is getattr(sys.modules[f"gpudoctor.model.{model._MODULE_OF[name]}"], name)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Fnding'"):
        model.Fnding  # noqa: B018


def test_one_name_does_not_import_the_rest():
    code = "import sys; from gpudoctor.model import Provenance; sys.exit('gpudoctor.model.patient' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
