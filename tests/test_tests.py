"""Tests that cannot fail: a loop of assertions over findings that may be none, and an `or` that is always true."""

import ast
from collections.abc import Iterator
from pathlib import Path

from some import some

TESTS = Path(__file__).parent
ASKS = {"examine", "prescribe", "findings", "look", "found"}
"""Helpers that give the findings or remedies of a patient, of which there may be none."""


def hollow(text: str) -> Iterator[int]:
    """Lines of loops whose assertions nothing may reach, and of assertions that a `not` or an `or` makes true."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.For) and any(isinstance(part, ast.Assert) for part in ast.walk(node)):
            call = node.iter
            name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
            if name in ASKS:
                yield node.lineno
        elif isinstance(node, ast.Assert) and isinstance(node.test, ast.BoolOp):
            sides = [ast.unparse(side) for side in node.test.values]
            opposites = {side.replace(" is not ", " is ") for side in sides}
            if isinstance(node.test.op, ast.Or) and len(opposites) < len(sides):
                yield node.lineno


def test_hollow_tests_are_seen():
    loop = "for finding in examine(Check, patient):\n    assert finding.message\n"
    assert list(hollow(loop)) == [1]
    assert list(hollow(loop.replace("examine(Check, patient)", "some(examine(Check, patient))"))) == []
    assert list(hollow("assert x is None or x is not None")) == [1]
    assert list(hollow("assert x is None or x > 3")) == []


def test_no_test_is_hollow():
    files = some(sorted(TESTS.rglob("test_*.py")))
    assert len(files) > 250
    assert [(path.name, line) for path in files for line in hollow(path.read_text(encoding="utf-8"))] == []
