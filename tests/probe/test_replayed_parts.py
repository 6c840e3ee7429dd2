"""Graphs as `mode="reduce-overhead"` replays them: forward and backward only, and the optimizer steps by itself.

No machine without CUDA makes such graphs. What torch would ask of the driver is a stand-in here, one below the
class whose `replay()` both the compiler and programs call; that class, the hooks on it and the steps are real.
"""

import pytest
from packages import need
from probed import run_script

need("torch")

STEPS = 40
PROGRAM = """
import torch
from torch import nn
below = torch.cuda.CUDAGraph.__mro__[1]
asked = []
below.__new__ = staticmethod(lambda kind, *options: object.__new__(kind))
below.__init__ = lambda self, *options: None
below.reset = lambda self: None
below.capture_begin = lambda self, *args, **options: asked.append("begin")
below.capture_end = lambda self: asked.append("end")
below.replay = lambda self: asked.append("replay")
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.randn(8, 4)
graph = torch.cuda.CUDAGraph()
def trained():
    optimizer.zero_grad()
    model(rows).sum().backward()
HELD
for step in range(40):
    graph.replay()
    OUTSIDE
print(asked == ["begin", "end"] + ["replay"] * 40)
"""
CAPTURE = "torch.cuda.CUDAGraph.capture_begin(graph)\ntrained()\n{}torch.cuda.CUDAGraph.capture_end(graph)"


@pytest.mark.parametrize(
    ("held", "outside", "told"),
    [
        pytest.param("", "optimizer.step()", 0, id="the optimizer steps by itself"),
        pytest.param("optimizer.step()\n", "pass", 1, id="the graph holds the step"),
    ],
)
def test_a_step_is_counted_once_wherever_the_optimizer_is(tmp_path, held, outside, told):
    text = PROGRAM.replace("HELD", CAPTURE.format(held)).replace("OUTSIDE", outside)
    run = run_script(tmp_path, text)
    assert run.result.stdout.splitlines() == ["True"], run.result.stderr
    assert run.rank.one("end")["steps"] == STEPS  # what is captured has not run
    records = [item for item in run.rank.of("compile") if item["kind"] == "replay"]
    assert len(records) == told
