"""The first result of a bad step that is not finite, in real programs."""

import json

import pytest
from packages import need
from probed import run_script

need("torch")

LOOP = """
model = nn.Linear(8, 3)
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x, y = torch.rand(16, 8) + 1, torch.randint(0, 3, (16,))
    {data}
    optimizer.zero_grad()
    {loss}
    loss.backward()
    optimizer.step()
"""
PLAIN = {"before": "", "data": "", "loss": "loss = F.cross_entropy(model(x), y)"}


def origin(tmp_path, **places):
    text = LOOP
    for name, value in {**PLAIN, **places}.items():
        text = text.replace("{" + name + "}", value)
    run = run_script(tmp_path, text, GPUDOCTOR_OVERRIDES=json.dumps({"replay.nan": {"step": 3}, "trial.seed": 20}))
    assert not run.rank.of("lost"), run.rank.of("lost")
    [record] = run.rank.of("replay")
    assert not record["broken"], record["broken"]
    return record.get("origin")


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (
            {"data": "if step == 3: x[0] = 0", "loss": "loss = (torch.log(x.sum(1)).mean() + model(x).sum())  # sick"},
            {"kind": "operation", "operation": "log", "phase": "forward", "value": "inf"},
        ),
        (
            {"data": "scale = 0.0 if step == 3 else 1.0", "loss": "loss = (model(x).mean() * scale).abs().sqrt()  # sick"},
            {"kind": "operation", "operation": "Sqrt", "phase": "backward"},
        ),
        ({"data": "x[2, 1] = float('nan') if step == 3 else 0"}, {"kind": "data", "value": "nan"}),
        (
            {"before": "bad = torch.full((3,), float('nan'))", "data": "if step == 3: model.bias.data = bad"},
            {"kind": "weights", "name": "bias"},
        ),
    ],
    ids=["log", "derivative", "data", "weight"],
)  # fmt: skip
def test_the_origin_is_named_with_its_line(tmp_path, places, told):
    found = origin(tmp_path, **places)
    assert {key: found[key] for key in told} == told
    if "# sick" in places.get("loss", ""):
        assert "# sick" in found["text"]


def test_a_mask_of_minus_infinity_is_not_blamed(tmp_path):
    masked = (
        "loss = F.cross_entropy(model(x).masked_fill(torch.tensor([True, False, False]), float('-inf')), y.clamp(1))"
    )
    assert origin(tmp_path, loss=masked) is None
