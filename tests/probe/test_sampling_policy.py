"""Steps that are looked at closely and steps that are only timed: each has its own row."""

import itertools

import pytest
from packages import need
from probed import run_script

need("torch")

STRIDE = 24
"""Of so many steps one is watched."""

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
def test_calls_in_light_steps_are_timed_and_counted(tmp_path):
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
@pytest.mark.parametrize("step", [202, 333])
def test_the_first_bad_loss_is_found_in_its_own_step(tmp_path, step):
    told = train(tmp_path, STRIDE, before=f"x = x * float('nan') if step == {step} else x").rank
    records = [record for record in told.of("numeric") if record["kind"].startswith("nan")]
    assert {record["step"] for record in records[:2]} == {step}
    gradients = next(record for record in records if record["kind"] == "nan-gradients")
    assert gradients["parameters"]
    assert "weights" not in gradients  # looked at before the step used them


@pytest.mark.parametrize(("before", "phase"), [("if step == 301: model(torch.zeros(1, 1))", "forward")])
def test_a_death_in_a_light_step_names_its_phase(tmp_path, before, phase):
    told = train(tmp_path, STRIDE, before=before, code=1).rank
    record = told.of("exception")[-1]
    assert (record["step"], record["phase"]) == (301, phase)
