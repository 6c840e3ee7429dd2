import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.loop.silent_broadcast import SilentBroadcast
from gpudoctor_rules.advice import advice

LOOP = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(range(10)):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""


def look(*shapes, text=LOOP):
    seen = record("numeric", 3.0, kind="broadcast", step=20, losses=24, shapes=list(shapes), path="/job/train.py",
                  line=7)  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=[seen]))
    patient = script_patient(text, recording=recording)
    return [(item, prescribe(advice("loop"), item, patient)) for item in examine(SilentBroadcast, patient)]


def test_sick_a_column_of_outputs():
    [(finding, [remedy])] = look([[3, 1], [3, 3], 1], [[24, 1], [24, 24], 20])
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "(24, 1) and the targets (24)" in finding.message and "576 pairs" in finding.message
    assert finding.span.text == "loss = torch.nn.functional.mse_loss(model(x), y)"
    assert remedy.title.startswith("use output.squeeze(1)")


def test_sick_a_column_of_targets():
    [(finding, [remedy])] = look([[24], [24, 24], 20])
    assert "(24) and the targets (24, 1)" in finding.message
    assert remedy.title.startswith("use target.squeeze(1)")


@pytest.mark.parametrize("shapes", [[], [[[8, 1], [8, 8], 1]]])
def test_healthy_once_is_no_habit(shapes):
    assert look(*shapes) == []


def test_healthy_without_a_recording_it_is_skipped():
    with pytest.raises(Unavailable):
        examine(SilentBroadcast, make_patient())
