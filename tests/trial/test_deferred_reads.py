"""Reads that are put off: nothing is skipped but the read, sums stay what they were, steering is left alone."""

import ast
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from probed import PREFIX, run_script

from gpudoctor.probe.overrides.deferred_reads import Sum, added
from gpudoctor.probe.overrides.early import rewrite
from gpudoctor.probe.overrides.run_every import PERIODS


class Number:
    """A tensor of one number that counts how often it is read."""

    requires_grad, shape, dtype = False, (), "float32"
    device = SimpleNamespace(type="cpu")
    read = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        Number.read += 1
        return self.value

    def __float__(self) -> float:
        return self.item()

    def numel(self) -> int:
        return 1

    def is_floating_point(self) -> bool:
        return True

    def detach(self) -> "Number":
        return self

    def reshape(self, _shape: object) -> "Number":
        return self

    double = detach

    def __add__(self, other: "Number") -> "Number":
        return Number(self.value + other.value)

    def __mul__(self, other: float) -> "Number":
        return Number(self.value * other)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> "Number":
        return Number(self.value / other)


@pytest.fixture
def steps():
    reached = set()
    probe = SimpleNamespace(steps=SimpleNamespace(index=0))
    PERIODS.adopt(SimpleNamespace(probe=probe, reached=reached.add, torch=SimpleNamespace(Tensor=Number)))
    Number.read = 0
    yield probe.steps
    PERIODS.adopt(None)


def run(text: str, steps, line: int, name: str, kind: str = "reads", period: int = 4) -> dict:
    names = {"Number": Number, "count": lambda step: setattr(steps, "index", step), "seen": [], "trained": []}
    exec(compile(rewrite(text, name, [(line, period, kind)]), name, "exec"), names)
    return names


LOOP = """\
def train(step):
    trained.append(step)
    return Number(step)
for step in range(8):
    count(step)
    {}
"""


def test_what_is_read_is_made_all_the_same(steps):
    names = run(LOOP.format("seen.append(train(step).item())"), steps, 6, "a.py")
    assert (names["trained"], names["seen"]) == (list(range(8)), [0, 0, 0, 0, 4, 4, 4, 4])
    assert Number.read == 2


@pytest.mark.parametrize("text", ["total += loss.item()", "total += 2 * loss.item() / 2"])
def test_a_running_sum_is_what_it_was_and_is_read_when_it_is_looked_at(steps, text):
    text = f"total = 0.0\nfor step in range(8):\n    count(step)\n    loss = Number(step)\n    {text}\n"
    names = run(text + "mean = total / 8\nseen.append(f'{total:.1f}')\n", steps, 5, f"b{len(text)}.py")
    assert (names["mean"], names["seen"]) == (3.5, ["28.0"])
    assert Number.read == 1


def test_a_sum_is_a_number_wherever_one_is_wanted():
    total = added(added(1.5, Number(2.0)), Number(3.0))
    assert isinstance(total, Sum)
    assert (float(total), int(total), round(total, 1), total + 1, 1 + total, -total) == (6.5, 6, 6.5, 7.5, 7.5, -6.5)
    assert total == 6.5 and total < 7 and not total > 7 and bool(total) and str(total) == "6.5"
    assert max([total, 3]) is total and sum([total, total]) == 13.0 and total.is_integer() is False
    assert added(1, 2) == 3 and added(total, 1) == 7.5


@pytest.mark.parametrize(
    "text",
    [
        "value = train(step).item()\n    if value > 2: break",
        "value = train(step).item()\n    optimizer.step(value)",
        "value = train(step).item()\n    loss = value * 2\n    loss.backward()",
        "scheduler.step(train(step).item())",
        "weight.mul_(train(step).item())",
        "optimizer.param_groups[0]['lr'] = train(step).item()",
        "if train(step).item() > 3:\n        step = train(9)",
        "for _ in train(step).tolist(): pass",
        "import os",
    ],
)
def test_what_steers_or_trains_is_left(text):
    source = LOOP.format(text)
    assert ast.unparse(rewrite(source, "c.py", [(6, 4, "reads")])) == ast.unparse(ast.parse(source))


def test_a_guard_that_only_complains_and_a_line_of_output_are_read_seldom(steps):
    run(LOOP.format("if Number(step).item() > 100:\n        raise SystemExit('diverged')"), steps, 6, "d.py")
    assert Number.read == 2
    shown = "value = Number(step)\n    print(value, 'so', file=out)"
    names = run("import io; out = io.StringIO()\n" + LOOP.format(shown), steps, 8, "e.py")
    assert len(names["out"].getvalue().splitlines()) == 2


def test_calls_between_ranks_are_left_where_a_rank_goes_on_by_them(steps):
    kept = LOOP.format("dist.all_reduce(stop)\n    if stop.item(): break")
    assert ast.unparse(rewrite(kept, "f.py", [(6, 50, "calls")])) == ast.unparse(ast.parse(kept))
    looped = LOOP.format("dist.barrier()")
    for line, changed in ((4, False), (6, True)):  # the loop itself, and the call
        assert ("due" in ast.unparse(rewrite(looped, "g.py", [(line, 0, "calls")]))) is changed
    training = "for x in loader:\n    loss.backward()\n    log(loss)\n"
    assert "due" not in ast.unparse(rewrite(training, "h.py", [(1, 50, "every")]))


TRAINING = """
import json
import os
values = torch.zeros(1000)
model, loader = net(), DataLoader(data(), 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total, correct, shown, history = 0.0, 0, [], []
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * x.size(0)  # sum
        correct += (out.argmax(-1) == y).sum().item()  # count
        shown.append(float(loss))  # shown
        history = values.add_(1).tolist()  # list
print(json.dumps([float(total), int(correct), len(set(shown)), history[0], float(model[0].weight.sum())]))
"""


def test_a_training_learns_the_same_and_its_sums_are_the_same(tmp_path):
    pytest.importorskip("torch")
    plain = run_script(tmp_path, TRAINING)
    at = [[str(plain.script), plain.line(mark), 8] for mark in ("sum", "count", "shown", "list")]
    for path in plain.folder.iterdir():
        path.unlink()
    put_off = run_script(tmp_path, TRAINING, GPUDOCTOR_OVERRIDES=json.dumps({"source.reads": at}))
    total, correct, shown, history, weights = json.loads(put_off.result.stdout)
    expected = json.loads(plain.result.stdout)
    assert (total, correct, weights) == (pytest.approx(expected[0]), expected[1], expected[4])
    assert (expected[2], shown) == (16, 2) and (expected[3], history) == (16, 9)
    places = {Path(record["name"]).name for record in put_off.rank.of("override") if record["reached"]}
    assert {f"train.py:{line}" for _, line, _ in at} <= places


RANKS = """
import json, os
import torch.distributed as dist
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
made, shown = {"barrier": 0, "all_reduce": 0}, 0.0
def counted(function):
    def call(*args, **kwargs):
        made[function.__name__] += 1
        return function(*args, **kwargs)
    return call
barrier, all_reduce = counted(dist.barrier), counted(dist.all_reduce)
torch.manual_seed(dist.get_rank())
for step in range(12):
    loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 3, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.detach().clone()
    all_reduce(value)  # reduce
    shown += float(value)
    barrier()  # barrier
weights = sum(float(part.sum()) for part in model.parameters())
with open(f"rank{dist.get_rank()}.json", "w") as stream:
    json.dump([made, weights], stream)
dist.destroy_process_group()
"""


@pytest.mark.skipif(os.name != "posix", reason="gloo as on Linux")
def test_meetings_of_ranks_are_left_out_by_all_of_them(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    lines = (PREFIX + RANKS).splitlines()
    at = {mark: number for mark in ("reduce", "barrier") for number, line in enumerate(lines, 1) if f"# {mark}" in line}
    table = {"source.calls": [[str(script), at["barrier"], 0], [str(script), at["reduce"], 5]]}
    run_script(tmp_path, RANKS, ranks=2, GPUDOCTOR_OVERRIDES=json.dumps(table))
    (first, weights), (second, same) = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1))
    assert first == second == {"barrier": 0, "all_reduce": 3}
    assert weights == same
