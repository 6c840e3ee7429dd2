"""What Dynamo compiles is the same with us as without: graphs, graph breaks, recompiles, words; and steps count."""

import json

import pytest
from packages import need
from probed import COMPILING, run_script, run_without

need("torch")

COUNTS = """
import json, torch._dynamo.utils as books
KINDS = "graph_break", "stats", "aot_autograd", "unimplemented"
def tell():
    counted = {name: dict(books.counters[name]) for name in KINDS}
    counted["graph_break"] = sum(counted["graph_break"].values())  # their words name the function around torch's
    again = [str(one.recompile_reason) for one in books._compilation_metrics if one.recompile_reason]
    frames = [(one.co_name, one.co_firstlineno, one.graph_op_count or 0) for one in books._compilation_metrics]
    print()
    print(json.dumps([counted, again, frames, [p.sum().item() for p in model.parameters()]]))
"""
"""What Dynamo has done so far, and the weights."""
HEAD = """
model, backend = net(), sys.argv[1]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batch(step):
    torch.manual_seed(step)
    return torch.randn(8, 8), torch.randint(0, 3, (8,))
"""
STEPS = 200
MODEL = """
call = torch.compile(model, backend=backend)
for step in range(200):
    x, y = batch(step)
    if step == 150:
        x, y = x[:5], y[:5]  # another shape: it is compiled again
    optimizer.zero_grad()
    loss = F.cross_entropy(call(x), y)
    loss.backward()
    optimizer.step()
"""
BROKEN = """
class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, x):
        x = x * 2
        print("in the middle", end="")
        if x.sum().item() > 1e9:
            x = x + 1
        return self.inner(x.cpu())
call = torch.compile(Broken(), backend=backend)
for step in range(200):
    x, y = batch(step)
    loss = F.cross_entropy(call(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OPTIMIZER = """
step_of = torch.compile(optimizer.step, backend=backend)
for step in range(200):
    x, y = batch(step)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    step_of()
"""
WHOLE = """
@torch.compile(backend=backend)
def train(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
for step in range(200):
    train(*batch(step))
"""
REPLICAS = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
replica = nn.parallel.DistributedDataParallel(model)
call = torch.compile(replica, backend=backend)
for step in range(200):
    x, y = batch(step)
    optimizer.zero_grad()
    loss = F.cross_entropy(call(x), y)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""
PROGRAMS = {"model": MODEL, "broken": BROKEN, "optimizer": OPTIMIZER, "whole": WHOLE, "replicas": REPLICAS}


CASES = [("model", "aot_eager"), ("broken", "eager"), ("whole", "aot_eager"), ("replicas", "eager")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), CASES)
def test_dynamo_does_what_it_does_without_us(tmp_path, name, backend):
    """Our frames are not traced: no graph has anything of ours, and nothing is compiled again for our sake."""
    text = f"import sys\n{HEAD}{COUNTS}{PROGRAMS[name]}\ntell()\n"
    # Dynamo knows `print` by identity: it has to be loaded after us, as it is in a program.
    with_us = run_script(tmp_path, text, backend, start=name == "broken", loaded=COMPILING)
    alone = run_without(with_us.script, backend, loaded=COMPILING)
    told, expected = (json.loads(run.stdout.splitlines()[-1]) for run in (with_us.result, alone))
    assert told == expected
    assert told[2], "nothing was compiled"
    assert words(with_us.result) == words(alone)
    assert with_us.rank.one("end")["steps"] == STEPS
    assert with_us.rank.one("loop")["marker"] == "optimizer"
    assert not [item for item in with_us.rank.of("numeric") if item["kind"] == "unstepped"]


def words(result):
    """Both streams, without times and process numbers."""
    said = [line.partition("] ")[2] or line for line in result.stderr.splitlines()]
    return result.stdout, said
