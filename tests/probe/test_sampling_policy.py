"""Steps that are watched, timed or neither: what is exact stays exact, and what is shared out is unbiased."""

import importlib
import itertools
import math
import random

import pytest
from packages import need
from probed import run_script

need("torch")

STRIDE = 24
"""Of so many steps one is watched, and of the others one of six is timed."""

LOOP = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(data(512), batch_size=8, shuffle=True)
losses = []
step = 0
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        {before}
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        losses.append(loss.detach())
        {after}
for value in losses:
    print("loss", value.item().hex())
"""
STEPS = 640
FIRST = 128
"""Steps that are watched in any case."""


def train(tmp_path, stride, before="pass", after="pass", code=0):
    return run_script(tmp_path, LOOP.format(before=before, after=after), settings={"stride": stride}, code=code)


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    return train(tmp_path_factory.mktemp("light"), STRIDE)


@pytest.mark.slow
def test_every_step_has_its_row_its_end_its_loss_and_its_batch(light):
    told = light.rank
    assert told.steps("index") == list(range(STEPS))
    assert set(told.steps("count")) == {1}
    losses = [float.fromhex(line.split()[1]) for line in light.result.stdout.split("\n") if line]
    assert told.steps("loss") == losses
    assert set(told.steps("backwards")) == {1}
    assert set(told.steps("batches")) == {1}
    assert set(told.steps("samples")) == {8}
    ends, durations = told.steps("t"), told.steps("duration")
    assert durations[1:] == pytest.approx([b - a for a, b in itertools.pairwise(ends)], abs=1e-6)
    assert min(told.steps("data_wait")) > 0
    assert told.one("end")["steps"] == STEPS


def test_most_steps_are_not_watched(light):
    """Only a watched step reads the rate."""
    rates = light.rank.steps("lr")
    watched = [index for index, rate in enumerate(rates) if rate == rate]
    assert watched[:FIRST] == list(range(FIRST))
    assert 8 <= len(watched[FIRST:]) <= 80  # 21 by the stride, and one an epoch
    assert max(b - a for a, b in itertools.pairwise(watched)) <= 1.5 * STRIDE + 1


@pytest.mark.slow
def test_calls_in_untimed_steps_are_timed_and_counted(tmp_path):
    told = train(tmp_path, STRIDE, after="print('here', flush=True)").rank
    assert told.steps("logs") == [0] + [1] * (STEPS - 1)  # it comes after the end of its step
    assert min(told.steps("logging")[1:]) > 0
    assert told.steps("index") == list(range(STEPS))
    assert set(told.steps("batches")) == {1}
    for index, duration in enumerate(told.steps("duration")):
        parts = [told.steps(phase)[index] for phase in ("data_wait", "forward", "backward", "optimizer", "logging")]
        assert min(parts) >= 0
        assert sum(parts) <= duration * 1.001
    steps = [site["steps"] for site in told.of("site") if site["what"] == "print" and site["calls"] == STEPS]
    assert max(steps) == STEPS


@pytest.mark.slow
@pytest.mark.parametrize("step", [201, 202, 203, 333])
def test_the_first_bad_loss_is_found_in_its_own_step(tmp_path, step):
    told = train(tmp_path, STRIDE, before=f"x = x * float('nan') if step == {step} else x").rank
    records = [record for record in told.of("numeric") if record["kind"].startswith("nan")]
    assert {record["step"] for record in records[:2]} == {step}
    gradients = next(record for record in records if record["kind"] == "nan-gradients")
    assert gradients["parameters"]
    assert "weights" not in gradients  # looked at before the step used them


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        ("if step == 301: model(torch.zeros(1, 1))", "forward"),
        ("if step == 301: y.float().sum().backward()", "backward"),
    ],
)
def test_a_death_in_an_untimed_step_names_its_phase(tmp_path, before, phase):
    told = train(tmp_path, STRIDE, before=before, code=1).rank
    record = told.of("exception")[-1]
    assert (record["step"], record["phase"]) == (301, phase)


@pytest.mark.slow
def test_an_evaluation_between_light_steps_is_seen(tmp_path):
    after = (
        "if step % 100 == 0:\n"
        "            model.eval()\n"
        "            with torch.no_grad():\n"
        "                for a, b in DataLoader(data(64), batch_size=8): model(a)\n"
        "            model.train()"
    )
    told = train(tmp_path, STRIDE, after=after).rank
    seconds = told.steps("evaluation")
    assert [index for index, value in enumerate(seconds) if value > 0] == [100, 200, 300, 400, 500, 600]
    assert told.steps("index") == list(range(STEPS))


class Simulated:
    """A clock, a table and steps without a training: the parts of a step take what they are told to take."""

    def __init__(self, room=1):
        modules = (
            importlib.import_module(f"gpudoctor.probe.{name}")
            for name in ("clock", "sampling_policy", "steps", "table")
        )
        self.clock_module, gaps, steps, self.table_module = modules
        self.clock = self.clock_module.Clock()
        self.table = self.table_module.StepTable()
        self.table._per_row = self.table.room = room
        self.steps = steps.Steps(self)
        self.gaps = gaps.Gaps(self)
        self.now = self.clock.started

    def timed(self, data, forward, backward, other):
        """A timed step of so many seconds; untimed ones follow."""
        self.gaps.timed_begins()
        row, module = self.clock.row, self.clock_module
        row[module.DATA_WAIT] += data
        row[module.FORWARD] += forward
        row[module.BACKWARD] += backward
        row[self.table_module.OTHER] += other
        row[self.table_module.AT["backwards"]] += 1
        self.now += data + forward + backward + other
        self.clock.mark = self.now
        self.gaps.timed(row, self.steps.put(self.steps.index, self.now))
        self.steps.index += 1
        self.gaps.open()

    def untimed(self, data, rest, loss=math.nan):
        """An untimed step."""
        self.clock.waited = data
        self.clock.loss = loss
        self.now += data + rest
        self.gaps.ended(self.now)

    def columns(self):
        """The table by name, with what is left."""
        self.gaps.close()
        self.steps.finish()
        taken = self.table.take(everything=True)
        return {name: taken[at] for name, at in self.table_module.AT.items()}


@pytest.mark.parametrize("room", [1, 8])
def test_shares_of_a_run_are_those_of_all_its_steps(room):
    """Steps of any length, stalls of the loader in one of fifty: one step of four by chance is timed."""
    chance = random.Random(0)
    run = Simulated(room)
    truth = dict.fromkeys(("data_wait", "forward", "backward", "other"), 0.0)
    until = 0
    for _ in range(8000):
        data = 0.05 if chance.random() < 0.02 else chance.uniform(1e-4, 3e-4)
        slow = chance.uniform(0.8, 1.3)
        parts = [data, *(slow * chance.uniform(0.5, 1.5) * mean for mean in (4e-4, 8e-4, 2e-4))]
        for name, seconds in zip(truth, parts, strict=True):
            truth[name] += seconds
        if until:
            until -= 1
            run.untimed(data, sum(parts[1:]))
        else:
            run.gaps.close()
            run.timed(*parts)
            until = chance.randint(1, 5)
    found = run.columns()
    assert sum(found["count"]) == 8000
    assert sum(found["duration"]) == pytest.approx(sum(truth.values()), rel=1e-6)
    assert sum(found["data_wait"]) == pytest.approx(truth["data_wait"], rel=1e-6)
    assert sum(found["forward"]) == pytest.approx(truth["forward"], rel=0.03)
    assert sum(found["backward"]) == pytest.approx(truth["backward"], rel=0.03)


def test_rows_of_several_steps_hold_untimed_ones_too():
    """In long runs a row covers many steps; those that are not timed are added to it."""
    run = Simulated(room=4)
    for index in range(18):
        if index % 3:
            run.untimed(0.002, 0.008, float(index))
        else:
            run.gaps.close()
            run.timed(0.002, 0.003, 0.004, 0.001)
    rows = run.columns()
    assert rows["count"] == [4, 4, 4, 4, 2]
    assert rows["index"] == [3, 7, 11, 15, 17]
    assert rows["backwards"] == [4, 4, 4, 4, 2]
    assert rows["duration"] == pytest.approx([0.04] * 4 + [0.02])
    assert rows["data_wait"] == pytest.approx([0.008] * 4 + [0.004])
    assert rows["forward"] == pytest.approx([0.012] * 4 + [0.006])
    assert rows["backward"] == pytest.approx([0.016] * 4 + [0.008])
    assert rows["loss"] == [2.0, 7.0, 11.0, 14.0, 17.0]


def test_what_is_much_longer_than_timed_steps_is_nobodys():
    run = Simulated()
    run.timed(0.002, 0.003, 0.004, 0.001)
    run.untimed(0.002, 1.0)
    rows = run.columns()
    assert (rows["forward"][1], rows["backward"][1]) == pytest.approx((0.006, 0.008))
    assert rows["duration"][1] == pytest.approx(1.002)
