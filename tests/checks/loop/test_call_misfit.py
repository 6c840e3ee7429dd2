import pytest
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.loop.call_misfit import CallMisfit

PROGRAM = """
    import functools
    import torch

    class Base:
        def __init__(self, size, *, depth, fast=False):
            self.size = size
        @classmethod
        def build(cls, settings, name):
            return cls(settings, depth=name)
        @staticmethod
        def pick(name):
            return name
        def go(self, one):
            return one

    class Child(Base):
        pass

    class Own(Base):
        def __init__(self, size):
            super().__init__(size, depth=3)

    class Made(Base):
        def __new__(cls, *values):
            return object.__new__(cls)

    @functools.wraps(print)
    def dressed(one):
        return one

    def score(model, loader, *, limit=9):
        return model, loader, limit

    def loose(first, *rest, **more):
        return first, rest, more

    def twice(one):
        return one

    def twice(one, two):
        return one, two

    def show(score):
        return score(3)

    options = dict(input())
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {line}
    for x in torch.utils.data.DataLoader(torch.load("d.pt")):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Base(3)", "Base() (line 6) needs depth, which the call does not pass"),
        ("Child(depth=3)", "Child() (line 6) needs size"),
        ("Base(3, 4, depth=5)", "gets 1 more argument than it accepts"),
        ("Base.build(options)", "Base.build() (line 9) needs name"),
        ("score(model)", "needs loader"),
        ("print(Base(3, depth=4, quick=True))", "has no parameter quick"),
        ("Base(3, depth=4, quick=True, mode=3)", "has no parameter quick and mode"),
    ],
)
def test_sick_arguments_that_a_function_of_the_program_does_not_take(line, words):
    [finding] = examine(CallMisfit, script_patient(PROGRAM.format(line=line)))
    assert words in finding.message and finding.severity is Severity.ERROR
    assert finding.cost.breaks


@pytest.mark.parametrize(
    "line",
    [
        "Base(3, depth=4); Child(3, depth=4, fast=True); Own(3); Base.build(options, 3); Base.pick(3)",
        "Base(3, **options)",
        "Base(*options)",
        "Made(3, 4, 5)",
        "loose(3, 4, 5, a=6)",
        "twice(3)",
        "print(show(print)); score(model)",  # the name is a parameter elsewhere
        "Own(3).go()",  # a subclass may define it otherwise
        "try:\n        Base(3)\n    except TypeError:\n        pass",
        "if False:\n        Base(3)",
        "Base = print\n    Base(3)",
        "build = functools.partial(Base, depth=3)\n    build(4)",
        "def idle():\n        Base(3)\n    KINDS = {'idle': idle}",  # nothing is seen to call it
        "class Net(torch.nn.Module):\n        def __init__(self, size):\n            super().__init__()\n"
        "    Net.from_pretrained('x', size=3, kind=4)",
    ],
)
def test_healthy_calls_that_fit_or_that_nobody_can_tell(line):
    assert examine(CallMisfit, script_patient(PROGRAM.format(line=line))) == []
