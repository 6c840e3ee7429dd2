import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import read_script

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfused

TEXT = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
"""


def look(device="cuda:0", seconds=0.02, version="2.9.0", **asked):
    source = read_script(TEXT)
    [script] = source.scripts
    records = [
        record("model", 1.2, cls="Linear", parameters=9, device=device, main=True),
        record("torch", 1.0, version=version),
        record("optimizer", 1.3, name="SGD", path=script.path, line=4, **asked),
    ]
    process = make_process(make_steps(200, optimizer=seconds), records=records)
    return make_patient(source=source, recording=make_recording(process))


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_sick_one_by_one(device):
    patient = look(device, foreach=False)
    [finding] = examine(OptimizerUnfused, patient)
    assert finding.severity is Severity.WARNING and finding.cost.step_share > 0.5


def test_healthy_where_nobody_asked_for_it_or_it_costs_nothing():
    for changes in ({"fused": True}, {"foreach": None}, {"device": "cpu", "version": "2.3.1"}, {"seconds": 0.0001}):
        assert examine(OptimizerUnfused, look(**{"foreach": False} | changes)) == []
