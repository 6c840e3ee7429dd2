"""Closures of optimizers: what runs in them is the loop's, and the gradients of a step are those after it."""

from packages import need
from probed import run_script, run_without

need("torch")

LBFGS = """
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
x, y = data(32).tensors
for step in range(12):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss
    loss = optimizer.step(closure)
print(loss.item().hex())
"""

INSIDE = """
import time
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def closure():
    time.sleep(0.02)  # slow
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    return loss
for x, y in DataLoader(data(160), batch_size=8):
    optimizer.step(closure=closure)
"""


def test_gradients_that_a_closure_clears_are_not_told_uncleared(tmp_path):
    run = run_script(tmp_path, LBFGS)
    told = run.rank
    assert len(told.steps("index")) == 12
    assert not [record for record in told.of("numeric") if record["kind"] == "uncleared"]
    assert run_without(run.script).stdout == run.result.stdout


def test_a_closure_that_clears_nothing_is_told(tmp_path):
    told = run_script(tmp_path, LBFGS.replace("optimizer.zero_grad()", "pass")).rank
    (record,) = [record for record in told.of("numeric") if record["kind"] == "uncleared"]
    assert record["found"] == record["steps"] == 11


def test_what_a_closure_does_besides_is_not_the_optimizers(tmp_path):
    told = run_script(tmp_path, INSIDE).rank
    assert len(told.steps("index")) == 20
    own = sorted(told.steps("optimizer"))
    assert own[-4] < 0.02 <= min(told.steps("duration"))  # a busy machine may hold up one or two
    assert min(told.steps("forward")) > 0
    assert min(told.steps("backward")) > 0
