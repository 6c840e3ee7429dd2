import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOften

SOME_BATCHES = """
import itertools
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def evaluate(loader):
    for y in itertools.islice(loader, BATCHES):
        model(y)
train_loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for step, batch in enumerate(itertools.islice(train_loader, STEPS)):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
    if step % 10 == 0:
        evaluate(val_loader)
"""


@pytest.mark.parametrize(("batches", "steps", "found"), [(4, 1000, 0), (5, 1000, 1), (50, 200, 0), (50, 201, 1)])
def test_few_batches_or_few_evaluations_of_a_whole_run_are_silent(batches, steps, found):
    text = SOME_BATCHES.replace("BATCHES", str(batches)).replace("STEPS", str(steps))
    assert len(examine(EvaluationTooOften, script_patient(text))) == found
