"""Metrics in the step."""

from mending import mended

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
