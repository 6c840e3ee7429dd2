"""Steps and phases of plain loops, recorded from real training in child processes."""

import itertools
import math

import pytest
from packages import need
from probed import run_script

need("torch")

PLAIN = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # made
loader = DataLoader(data(), batch_size=8, shuffle=True)  # loader
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)  # forward
        loss.backward()
        optimizer.step()  # step
print("loss", loss.item().hex())
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run_script(tmp_path_factory.mktemp("plain"), PLAIN)


def test_a_plain_loop_has_its_steps(plain):
    told = plain.rank
    assert told.left == 0
    assert told.steps("index") == list(range(24))
    assert set(told.steps("count")) == {1}
    assert told.one("loop")["marker"] == "optimizer"
    assert told.one("loop")["line"] == plain.line("step")
    assert told.one("end") | {"t": 0} == {"type": "end", "t": 0, "clean": True, "steps": 24, "dropped": {}}


def test_phases_are_exclusive_and_within_the_step(plain):
    told = plain.rank
    phases = ("data_wait", "forward", "backward", "optimizer")
    for index, duration in enumerate(told.steps("duration")):
        spent = [told.steps(phase)[index] for phase in phases]
        assert min(spent) > 0
        assert sum(spent) <= duration * 1.0001
    assert sum(told.steps("duration")) == pytest.approx(
        told.steps("t")[-1] - told.steps("t")[0] + told.steps("duration")[0], rel=1e-3
    )
    for phase in ("transfer", "logging", "checkpoint", "evaluation", "profiler", "collective"):
        assert sum(told.steps(phase)) == 0


def test_counts_and_losses_of_a_plain_loop(plain):
    told = plain.rank
    assert set(told.steps("backwards")) == {1}
    assert set(told.steps("batches")) == {1}
    assert set(told.steps("samples")) == {8}
    assert all(math.isnan(value) for value in told.steps("tokens"))
    assert told.steps("loss")[-1] == float.fromhex(plain.result.stdout.split()[-1])
    assert told.steps("lr") == pytest.approx([0.1] * 24)


def test_what_took_part_is_told(plain):
    told = plain.rank
    model, optimizer, loader = told.one("model"), told.one("optimizer"), told.one("loader")
    assert (model["name"], model["parameters"], model["line"]) == ("Sequential", 195, plain.line("forward"))
    assert (optimizer["name"], optimizer["lr"], optimizer["missing"]) == ("SGD", 0.1, [])
    assert optimizer["line"] == plain.line("made")
    assert (loader["role"], loader["batch_size"], loader["workers"]) == ("training", 8, 0)
    assert loader["line"] == plain.line("loader")
    assert told.one("torch")["threads"] == 1


def test_accumulation_makes_one_step_of_several_backwards(tmp_path):
    told = run_script(
        tmp_path,
        """
        model, optimizer = (m := net()), torch.optim.AdamW(m.parameters())
        for number, (x, y) in enumerate(DataLoader(data(96), batch_size=8)):
            F.cross_entropy(model(x), y).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
        """,
    ).rank
    assert told.steps("backwards") == [4, 4, 4]
    assert told.steps("samples") == [32, 32, 32]


CYCLES = """
nets = [net() for _ in range(3)]
critic, actor, alpha = (torch.optim.Adam(n.parameters()) for n in nets)
batches = DataLoader(data(30 * 8), batch_size=8)

def train(optimizer, times=1):
    model = nets[(critic, actor, alpha).index(optimizer)]
    for _ in range(times):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

for number, (x, y) in enumerate(batches):
    {}
"""


@pytest.mark.parametrize(
    ("body", "backwards"),
    [
        ("train(critic); train(actor); train(alpha)", [1] + [3] * 29),
        ("train(critic, 5); train(actor)", [1] * 5 + [2, 1, 1, 1, 1] * 29),
        ("train(critic); number % 20 == 19 and train(alpha)", [1] * 20 + [2] + [1] * 9),
        ("train(critic); number > 10 and train(actor)", [1] * 12 + [2] * 18),
        ("train((actor, critic)[number // 15])", [1] * 15 + [2] + [1] * 13),
        ("if number == 15: critic = torch.optim.SGD(nets[0].parameters())\n    train(critic)", [1] * 30),
    ],
)
def test_several_optimizers_make_cycles(tmp_path, body, backwards):
    told = run_script(tmp_path, CYCLES.format(body)).rank
    assert told.steps("backwards") == backwards
    counts, indices = told.steps("count"), told.steps("index")
    assert told.one("end")["steps"] == sum(counts) == indices[-1] + 1
    assert indices == [end - 1 for end in itertools.accumulate(counts)]
    assert sum(told.steps("duration")) == pytest.approx(
        told.steps("t")[-1] - told.steps("t")[0] + told.steps("duration")[0], rel=1e-3
    )


def test_a_loop_without_an_optimizer_steps_by_its_backward_passes(tmp_path):
    told = run_script(
        tmp_path,
        """
        model = net()
        x, y = data(32).tensors
        for step in range(12):
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
        """,
    ).rank
    assert told.one("loop")["marker"] == "backward"
    assert sum(told.steps("backwards")) == 12
    assert len(told.steps("index")) == 11


def test_evaluation_owns_what_happens_inside_it(tmp_path):
    run = run_script(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training, validation = DataLoader(data(64), batch_size=8), DataLoader(data(512), batch_size=16)
        for epoch in range(3):
            model.train()
            for x, y in training:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for x, y in validation:
                    model(x)
        """,
    )
    told = run.rank
    assert told.steps("index") == list(range(24))
    evaluated = [index for index, seconds in enumerate(told.steps("evaluation")) if seconds > 0]
    assert evaluated == [8, 16]
    for index in evaluated:
        assert told.steps("evaluation")[index] > 0.5 * told.steps("duration")[index]
    assert set(told.steps("batches")[:8]) == {1}
    roles = {record["batch_size"]: record["role"] for record in told.of("loader")}
    assert roles == {8: "training", 16: "evaluation"}


@pytest.mark.parametrize(
    ("parts", "rows"),
    [
        ("torch.arange(50), torch.arange(6), torch.zeros(6)", 6),
        ("[torch.randn(3, 8, 8) for _ in range(6)], [{'boxes': torch.zeros(9, 4)} for _ in range(6)]", 6),
        ("{'input_ids': torch.zeros(6, 9, dtype=torch.long), 'labels': torch.zeros(6)}", 6),
        ("{'a': [0] * 4, 'b': [0] * 4, 'input_ids': torch.zeros(6, 9, dtype=torch.long)}", 6),
    ],
)
def test_the_rows_of_a_batch_are_what_its_parts_agree_on(tmp_path, parts, rows):
    told = run_script(
        tmp_path,
        f"""
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inputs, labels = data(32).tensors
        one = {parts if parts.startswith("{") else f"({parts})"}
        for batch in DataLoader([one] * 40, batch_size=None):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        """,
    ).rank
    assert set(told.steps("samples")) == {rows}
