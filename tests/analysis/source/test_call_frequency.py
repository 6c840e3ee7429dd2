"""Calls that a training repeats: which loops and calls count, how often they run, and how they are grouped."""

import pytest
from scripts import script_patient

from gpudoctor.analysis.source.call_frequency import TrainingCall, calls_in_training, full_batch, measures

HEAD = """import torch

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(batch):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()


def note(batch):
    torch.cuda.synchronize()


"""


def found(text: str, **options: object) -> list[list[TrainingCall]]:
    source = script_patient(HEAD + text).source
    return list(calls_in_training(source, lambda item: item.call.method == "synchronize", **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "period"),
    [
        ("note(batch)", 1.0),
        ("if number % 50 == 0: note(batch)", 50.0),
        ("if number == 50: note(batch)", None),
        ("if torch.isnan(batch).any(): note(batch)", None),
        ("for _ in range(3): note(batch)", 1.0),
        ("if batch.sum() > 3: note(batch)", None),
    ],
)
def test_the_period_of_a_call(body: str, period: float | None) -> None:
    calls = found(f"for number, batch in enumerate(torch.rand(9, 4, 8)):\n    step(batch)\n    {body}\n")
    assert [[item.period for item in group] for group in calls] == ([[period]] if period else [])


def test_a_limit_leaves_out_what_runs_as_seldom() -> None:
    text = (
        "for number, batch in enumerate(torch.rand(9, 4, 8)):\n    step(batch)\n    if number % 50 == 0: note(batch)\n"
    )
    assert found(text, every=51)
    assert not found(text, every=50)


def test_a_call_that_two_loops_reach_comes_with_the_first() -> None:
    loop = "for batch in torch.rand(9, 4, 8):\n    step(batch)\n    note(batch)\n"
    (group,) = found(loop + loop)
    assert [item.loop.span.line for item in group] == [17]


def test_a_call_that_a_pass_reaches_twice_comes_twice_unless_it_is_to_be_distinct() -> None:
    text = "for batch in torch.rand(9, 4, 8):\n    note(batch)\n    step(batch)\n    note(batch)\n"
    assert [len(group) for group in found(text)] == [2]
    assert [len(group) for group in found(text, distinct=True)] == [1]


def test_loops_are_skipped() -> None:
    text = "for epoch in range(900):\n    step(torch.rand(9, 8))\n    note(1)\n"
    assert found(text, skip=measures)
    assert not found(text, skip=full_batch)


def test_an_assumed_condition_counts_as_true() -> None:
    text = (
        "def main(writer):\n    for batch in torch.rand(9, 4, 8):\n        step(batch)\n"
        "        if writer: note(batch)\nmain(object)\n"
    )
    assert not found(text)
    assert found(text, assume=lambda guard: guard.text == "writer")


def test_a_loop_that_is_known_to_end_soon() -> None:
    text = "for number in range(400):\n    step(torch.rand(9, 8))\n    if number % 100 == 0: note(number)\n"
    ((call,),) = found(text)
    assert call.at_most(4) and not call.at_most(3)
    assert not found(text.replace("400", "40"))
