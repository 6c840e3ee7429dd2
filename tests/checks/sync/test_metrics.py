"""Reads for metrics, and explicit waits."""

import pytest
from mending import mended
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.sync.per_sample_metrics import PerSampleMetrics

ZIPPED = """
    import torch

    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criteria = [torch.nn.CrossEntropyLoss(), torch.nn.MultiMarginLoss()]
    meters = [[], []]
    for x, y in torch.utils.data.DataLoader([]):
        x, y = x.cuda(), y.cuda()
        out = model(x)
        values = scale_losses = torch.stack([criterion(out, y) for criterion in criteria])
        optimizer.zero_grad()
        values.sum().backward()
        optimizer.step()
        for {names} in {over}:
            meters[0].append(value.item())
"""


@pytest.mark.parametrize(
    ("names", "over", "found"),
    [
        ("meter, value", "zip(meters, values)", 0),
        ("i, (value, _)", "enumerate(zip(values, criteria))", 0),
        ("value, other", "zip(scale_losses, box_losses)", 0),
        ("value, target", "zip(out, y)", 1),
    ],
)
def test_a_loop_over_losses_or_groups_is_no_loop_over_samples(names, over, found):
    text = ZIPPED.format(names=names, over=over)
    assert len(examine(PerSampleMetrics, script_patient(text))) == found


TWICE = """
import torch
from sklearn.metrics import f1_score
def score(out, y):
    return f1_score(y.cpu(), out.argmax(1).cpu())
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scores = []
for step, (x, y, z) in enumerate(torch.utils.data.DataLoader([])):
    x, y, z = x.cuda(), y.cuda(), z.cuda()
    out = model(x)
    loss = torch.nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scores.append(score(out, y))
    {second}
"""


def test_nothing_is_edited_where_one_call_cannot_wait():
    text = TWICE.format(second="loss = loss * score(out, z)")
    assert mended(text, select="SYNC004") == text
