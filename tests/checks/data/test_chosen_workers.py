"""A number of workers that the program chooses elsewhere is set there: no edit writes over it."""

import pytest
from scripts import script_patient

from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.workers_misfit import WorkersMisfit
from gpudoctor_rules.data.loaders import workers_misfit

LOOP = """
for epoch in range(2):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""
HEAD = """import torch
from torch.utils.data import DataLoader
THREADS = 48
class Settings:
    workers = 48
settings = Settings()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""


def remedy(value):
    text = HEAD + f"loader = DataLoader(torch.rand(512, 8), num_workers={value})\n" + LOOP
    patient = script_patient(text, host=make_host())
    [finding] = examine(WorkersMisfit, patient)
    [found] = prescribe(workers_misfit, finding, patient)
    return found


@pytest.mark.parametrize("value", ["THREADS", "settings.workers"])
def test_sick_a_value_from_elsewhere_is_not_written_over(value):
    found = remedy(value)
    assert not found.edits
    assert found.steps[0].startswith(f"Set {value}, which the loader gets, to ")


def test_healthy_a_literal_is_replaced_in_its_call():
    assert remedy("48").edits
