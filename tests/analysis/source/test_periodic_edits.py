"""Statements of a training loop that run less often: the guard, its counter, and what is left alone."""

from types import SimpleNamespace

import pytest
from edits import apply_edits
from recordings import make_process, make_recording, make_steps
from scripts import read_script

from gpudoctor.analysis.source.periodic_edits import thinned
from gpudoctor.analysis.source.trainer_periods import cheap_period, engine_period, period_for
from gpudoctor.model import Cost
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import make_patient

HEAD = """\
import torch
model, loader = torch.nn.Linear(8, 1), torch.utils.data.DataLoader(torch.randn(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def save(model, path):
    torch.save(model.state_dict(), path)
def train(x):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    torch.save(model.state_dict(), "last.pt")
"""
STEP = "    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"


def cure(text: str, mark: str) -> str:
    """The program with the line that holds the mark thinned; "" where nothing is edited."""
    source = read_script(text)
    [script] = source.scripts
    line = next(at for at, words in enumerate(script.text.splitlines(), 1) if mark in words)
    column = len(words := script.text.splitlines()[line - 1]) - len(words.lstrip()) + 1
    edits = thinned(source, script.path, line, column, 500)
    return apply_edits(script.text, edits) if edits else ""


@pytest.mark.parametrize(
    ("head", "foot", "guard"),
    [
        ("for i, x in enumerate(loader):\n", "", "if i % 500 == 0:"),
        ("for i in range(10_000):\n    x = next(it)\n", "", "if i % 500 == 0:"),
        ("seen = 0\nfor x in loader:\n", "    seen += 1\n", "if seen % 500 == 0:"),
        ("seen = 0\nwhile seen < 9_999:\n    x = next(it)\n", "    seen += 1\n", "if seen % 500 == 0:"),
    ],
)
def test_the_guard_goes_by_what_counts_the_passes(head, foot, guard):
    cured = cure(f"{HEAD}it = iter(loader)\n{head}{STEP}    torch.save(model, 'a.pt')  # here\n{foot}", "# here")
    assert f"    {guard}\n        torch.save(model, 'a.pt')  # here\n" in cured


def test_a_guard_gets_another_number():
    text = f"{HEAD}for i, x in enumerate(loader):\n{STEP}    if i % 5 == 0:\n        save(model, 'a.pt')\n"
    assert "if i % 500 == 0:\n        save" in cure(text, "save(model, 'a.pt')")
    alone = text + "        scheduler = None\n"
    assert cure(alone, "save(model, 'a.pt')") == ""


@pytest.mark.parametrize(
    ("share", "now", "watching", "period"),
    [(0.0, 1, 0.0, 1), (0.5, 1, 0.5, 50), (0.5, 5, 0.5, 500), (0.3, 1, 0.9, 200), (0.02, 1, 0.02, 2)],
)
def test_a_period_leaves_a_fiftieth(share, now, watching, period):
    assert cheap_period(share, now, watching) == period


@pytest.mark.parametrize(
    ("end", "fits"),
    [
        (RunEnd(exit_code=0, signal=None, seconds=9.0), True),
        (RunEnd(exit_code=0, signal=None, seconds=9.0, stopped_by="steps"), False),
        (RunEnd(exit_code=1, signal=None, seconds=9.0), False),
    ],
)
def test_a_period_fits_the_run_that_came_to_its_end(end, fits):
    recording = make_recording(make_process(make_steps(300, checkpoint=0.4)), end=end)
    patient = make_patient(recording=recording)
    finding = SimpleNamespace(cost=Cost(step_share=0.98))
    every = period_for(finding, patient, 500, 1, None), engine_period(patient, "save", 1, 500, None)
    assert max(every) <= 150 if fits else min(every) >= 500
