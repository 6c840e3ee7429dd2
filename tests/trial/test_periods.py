"""Source rewritten so that a statement runs every so many steps."""

from types import SimpleNamespace

import pytest

from gpudoctor.probe.overrides.early import PERIODS, rewrite

LOOP = """\
seen, last, total = [], [], 0
for step in range(6):
    count(step)
    seen.append(step)
    value = step * 10
    last.append(value)
    for other in (1, 2):
        total += other
    if step >= 0:
        total += 100
"""


@pytest.fixture
def steps():
    """The steps of a probe that the program counts by itself."""
    trial = SimpleNamespace(probe=SimpleNamespace(steps=SimpleNamespace(index=0)), reached=lambda name: None)
    PERIODS.adopt(trial)
    yield trial.probe.steps
    PERIODS.adopt(None)


def run(text: str, steps, *periods: tuple[int, int], name: str = "rewritten.py") -> dict:
    names = {"count": lambda step: setattr(steps, "index", step)}
    exec(compile(rewrite(text, name, list(periods)), name, "exec"), names)
    return names


def test_a_statement_runs_when_its_turn_has_come(steps):
    assert run(LOOP, steps, (4, 3), name="a.py")["seen"] == [0, 3]
    assert run(LOOP, steps, (4, 0), name="b.py")["seen"] == []
    assert run(LOOP, steps, name="c.py")["seen"] == [0, 1, 2, 3, 4, 5]


def test_an_assignment_keeps_its_last_value_and_is_never_unbound(steps):
    assert run(LOOP, steps, (5, 3), name="d.py")["last"] == [0, 0, 0, 30, 30, 30]
    assert run(LOOP, steps, (5, 0), name="e.py")["last"] == [0, 0, 0, 0, 0, 0]


def test_a_loop_is_skipped_as_a_whole(steps):
    assert run(LOOP, steps, (7, 0), name="f.py")["total"] == 600


def test_a_guard_of_its_own_does_not_hide_the_turn(steps):
    text = LOOP.replace("    seen.append(step)", "    if step % 2 == 1:\n        seen.append(step)")
    assert run(text, steps, (5, 4), name="g.py")["seen"] == [1, 5]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (3, "def f():\n    for x in (1, 2):\n        return x\n"),
        (2, "for x in (1,):\n    break\n"),
        (1, "with open(__file__) as f: pass\n"),
        (1, "def f(): pass\n"),
        (1, "import os\n"),
        (9, "x = 1\n"),
    ],
)
def test_what_would_change_the_flow_is_left(line, text):
    rewritten = rewrite(text, "h.py", [(line, 2)])
    assert "due" not in ast_text(rewritten)


def ast_text(tree) -> str:
    import ast

    return ast.unparse(tree)


def test_lines_stay_where_they_were(steps):
    names = {}
    text = "print\nx = 1\n\ndef f():\n    raise ValueError\n"
    exec(compile(rewrite(text, "i.py", [(2, 5)]), "i.py", "exec"), names)
    with pytest.raises(ValueError) as caught:
        names["f"]()
    assert caught.traceback[-1].lineno == 4
