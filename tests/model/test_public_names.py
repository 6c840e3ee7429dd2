"""The package's names are imported when they are asked for; the lists of them agree."""

import ast
import sys
from pathlib import Path

import gpudoctor.model as model


def test_every_name_is_there_and_comes_from_the_module_that_the_type_checker_sees():
    tree = ast.parse(Path(model.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {node.module for node in block.body} == {f"gpudoctor.model.{home}" for home in model._HOMES}
    for name in model._MODULE_OF:
        assert getattr(model, name) is getattr(sys.modules[f"gpudoctor.model.{model._MODULE_OF[name]}"], name)
