import ast

import pytest
from scripts import script_patient

from gpudoctor.analysis.source.control_flow import bound, never_reached
from gpudoctor.analysis.source.syntax import nodes

LOOP = """
import torch
loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
for x in loader:
    {inside}
"""


@pytest.mark.parametrize(
    ("inside", "passes"),
    [
        ("show(x)\n    break", 1),
        ("if x.size(0) < 3: continue\n    show(x)\n    break", None),
        ("if x.size(0) < 3: break\n    show(x)", None),
        ("show(x)", None),
    ],
)
def test_a_loop_that_ends_with_a_break_makes_one_pass(inside: str, passes: int | None) -> None:
    [script] = script_patient(LOOP.format(inside=inside)).source.scripts
    [loop] = script.loops
    assert bound(script, loop) == passes


MADE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--old", action="store_true")
args = parser.parse_args()
class Old:
    def __init__(self):
        self.value = 3
    def get(self):
        return 4
class Young(Base):
    def __init__(self):
        self.value = 5
{head}
{more}
young = Young()
"""


@pytest.mark.parametrize(
    ("head", "more", "reached"), [("if args.old: thing = Old()", "pass", False), ("thing = Old()", "pass", True)]
)
def test_a_constructor_is_reached_by_the_calls_of_its_class(head: str, more: str, reached: bool) -> None:
    source = script_patient(MADE.format(head=head, more=more)).source
    [script] = source.scripts
    [three] = [node for node in nodes(script, ast.Constant) if node.value == 3]
    assert never_reached(source, script, three) is not reached
