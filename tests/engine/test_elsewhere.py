"""What the source suspects of a training that a recorded run did not enter is not said of the run."""

import pytest
from recordings import lines, make_process, make_recording, make_steps, record
from scripts import read_script

from gpudoctor.engine.runner import run_checks
from gpudoctor.model import Found, PatientKind
from gpudoctor.testing import make_patient
from gpudoctor_checks.loop.clip_misplaced import ClipMisplaced

PROGRAM = """\
import sys
import torch

model = torch.nn.Linear(8, 2)
first = torch.optim.SGD(model.parameters(), 0.1)
second = torch.optim.SGD(model.parameters(), 0.1)
scaler, batches = torch.amp.GradScaler("cuda"), torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=4)

def plain():
    for x in batches:
        first.zero_grad()
        model(x).sum().backward()
        first.step()

def tuned():
    for epoch in range(3):
        for x in batches:
            scaler.scale(model(x).square().sum()).backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(second); second.zero_grad(); scaler.update()

(tuned if sys.argv[1] == "tuned" else plain)()
"""


SOURCE = read_script(PROGRAM)
PATH = SOURCE.scripts[0].path


def found(*records):
    recording = make_recording(make_process(make_steps(100), records=list(records))) if records else None
    patient = make_patient(source=SOURCE, recording=recording, kind=PatientKind.SCRIPT)
    return [
        item.span.line
        for outcome in run_checks(patient, [ClipMisplaced], {}, preview=True)
        if isinstance(outcome, Found)
        for item in outcome.findings
    ]


def loop(line, path=PATH):
    return record("loop", 1.0, marker="optimizer", path=path, line=line, function="f", engine=None, step=0)


def test_a_run_of_the_other_training_says_nothing_of_this_one():
    assert found(loop(13)) == []


@pytest.mark.parametrize(
    "records",
    [
        [loop(19)],  # this one made the steps
        [loop(13), lines(("backward", PATH, 18, "tuned", 5), t=3.0)],  # it was entered later
        [loop(19), loop(13)],
        [loop(3, "/lib/engine.py")],
    ],
)
def test_a_run_that_was_seen_in_it_or_in_no_training_at_all_keeps_the_suspicion(records):
    assert found(*records) == [18]
