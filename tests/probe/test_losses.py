"""What the probe sees of a loss: shapes that broadcast, labels, outputs that are all equal."""

import pytest
from packages import need
from probed import run_script

from gpudoctor_checks.data.not_shuffled import NotShuffled
from gpudoctor_checks.numerics.constant_target import ConstantTarget

need("torch")

COLUMN = """
from torch import nn
import torch.nn.functional as F

def distance(a, b):
    gap = b - a
    return (gap * gap).sum() / len(a)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.001)
rows, table = torch.randn(12, 4), torch.randn(12, 12)
y = rows.sum(1)
for text in {} * {}:
    out = model(rows)
    loss = eval(text)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
"""Each of several losses for some steps."""
WIDE = {
    "F.mse_loss(out, y)": [12, 1],
    "F.mse_loss(y, out)": [12, 1],
    "nn.MSELoss(reduction='sum')(out, y)": [12, 1],
    "nn.SmoothL1Loss()(out, y)": [12, 1],
    "0.5 * nn.HuberLoss()(out, y) + 1e-3 * model[0].weight.square().sum()": [12, 1],
    "F.l1_loss(out, y)": [12, 1],
    "(out - y).abs().mean()": [12, 1],
    "((y - out) ** 2).mean().sqrt()": [12, 1],
    "distance(out, y)": [12, 1],
    "F.mse_loss(out.squeeze(1), y.unsqueeze(1))": [12],
    "((out.flatten() - y[:, None]) ** 2).mean()": [12],
    "F.mse_loss(out, y, reduction='none').mean()": [12, 1],
    "(y.abs() * F.smooth_l1_loss(out, y, reduction='none')).sum()": [12, 1],
    "(y.abs() * (out - y) ** 2).mean()": [12, 1],
}
IMAGES = """
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Conv2d(2, 1, 3, padding=1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
images, masks = torch.randn(5, 2, 6, 7), torch.rand(5, 6, 7)
planes = torch.rand(5, 5, 6, 7)
for text in {} * {}:
    out = model(images)
    loss = eval(text)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WIDE_IMAGES = {
    "F.mse_loss(out.sigmoid(), masks)": [5, 1, 6, 7],
    "nn.SmoothL1Loss()(out, masks)": [5, 1, 6, 7],
    "F.l1_loss(out, masks)": [5, 1, 6, 7],
    "((out.tanh() - masks) ** 2).mean()": [5, 1, 6, 7],
    "F.mse_loss(out.squeeze(1), masks.unsqueeze(1))": [5, 6, 7],
}
ONE_EACH_IMAGES = [
    "F.mse_loss(out.squeeze(1), masks)",
    "F.mse_loss(out, masks.unsqueeze(1))",
    "F.mse_loss(out, planes)",
    "((out - planes) ** 2).mean()",
    "F.mse_loss(out, masks.mean(0))",
    "F.mse_loss(out.squeeze(1).unsqueeze(1), masks)",
    "(out - out.squeeze(1)).abs().mean()",
]
NOT_WIDE = [
    "F.mse_loss(out.squeeze(1), y)",
    "F.mse_loss(out, y.unsqueeze(1))",
    "F.mse_loss(out, table)",
    "F.mse_loss(out, y[0])",
    "((out - table) ** 2).mean()",
    "(out - y.mean()).abs().mean()",
    "((out[:, 0].unsqueeze(1) - y) ** 2).mean()",
    "F.mse_loss(out, (y.unsqueeze(1) - y) * table)",
    "F.mse_loss(out, y.unsqueeze(1).expand(12, 12).clone())",
    "(out - out.T).abs().mean()",
    "F.mse_loss(out, y, reduction='none').min(1).values.mean()",
    "(out - y).abs().min(1).values.mean()",
    "F.mse_loss(out.expand(12, 5), torch.ones(12, 5))",
    "F.mse_loss(out, y.unsqueeze(1) + model(rows))",
    "F.mse_loss(out[:, 0], y + model(rows)[:, 0])",
    "F.mse_loss(out[:, 0].unsqueeze(1), model(rows)[:, 0])",
    "F.mse_loss(out.expand(12, 5), model(rows).expand(12, 5))",
    "((out - out.squeeze(1)) ** 2).mean()",
    "((out.flatten() - 0.9 * model(rows)[:, 0]) ** 2).mean()",
    "((model(rows)[:, 0].unsqueeze(1) - out.squeeze(1)) ** 2).mean()",
    "((out - model(rows).T) ** 2).mean()",
]


def told(run, kind):
    assert not run.rank.of("lost")
    return [item for item in run.rank.of("numeric") if item["kind"] == kind]


def shapes_told(tmp_path, text, losses, times=3):
    """Own shape and all pairs, with the losses that were seen so."""
    found = told(run_script(tmp_path, text.format(list(losses), times)), "broadcast")
    if not found:
        return {}
    assert found[-1]["losses"] == times * len(losses)
    return {(tuple(own), tuple(shape)): often for own, shape, often in found[-1]["shapes"]}


def counted(table, shape, times=3):
    return {(tuple(own), shape): times * list(table.values()).count(own) for own in table.values()}


def test_outputs_that_meet_all_targets(tmp_path):
    assert shapes_told(tmp_path, COLUMN, WIDE) == counted(WIDE, (12, 12))


def test_images_that_meet_the_masks_of_all_others(tmp_path):
    assert shapes_told(tmp_path, IMAGES, WIDE_IMAGES) == counted(WIDE_IMAGES, (5, 5, 6, 7))


@pytest.mark.parametrize(("text", "losses"), [(COLUMN, NOT_WIDE), (IMAGES, ONE_EACH_IMAGES)], ids=["rows", "images"])
def test_outputs_that_meet_their_own_target(tmp_path, text, losses):
    assert shapes_told(tmp_path, text, losses, times=2) == {}


def test_arguments_that_hooks_of_the_program_keep_are_left_alone(tmp_path):
    text = COLUMN.format(["offloaded(out, y)"], 6).replace(
        "torch.manual_seed(0)",
        "def offloaded(out, y):\n"
        "    with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, asked):\n"
        "        return F.mse_loss(out, y)\n\n"
        "count = [0]\n\n"
        "def asked(kept):\n    count[0] += 1\n    return kept\n",
    )
    run = run_script(tmp_path, text + "print(count[0])\n")
    assert told(run, "broadcast") == []
    assert run.result.stdout == "12\n"  # by the backward passes themselves: two arguments, six times


LABELS = """
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
count = 480
model = nn.Linear(4, 5)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
{data}
for x, y in DataLoader(TensorDataset(torch.randn(count, 4), labels), {loader}):
    out = model(x)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ORDERED = "labels = torch.arange(5).repeat_interleave(96)"


JUDGED = min(
    item.default for check in (ConstantTarget, NotShuffled) for item in check.thresholds if item.name == "losses"
)
"""Losses below which no check judges labels."""


def labels_of(tmp_path, data=ORDERED, loader="batch_size=16", loss="F.cross_entropy(out, y)"):
    run = run_script(tmp_path, LABELS.format(data=data, loader=loader, loss=loss))
    return told(run, "labels"), run.rank.of("loader")[-1]["order"]


def test_labels_that_come_class_by_class(tmp_path):
    [*_, last], order = labels_of(tmp_path)
    assert order == "sequential"
    assert (last["losses"], last["found"], last["elements"], last["classes"]) == (30, 30, 480, 5)
    assert last["labels"] == [[label, 6] for label in range(5)]


def test_labels_that_come_mixed(tmp_path):
    [*_, last], order = labels_of(tmp_path, loader="batch_size=16, shuffle=True")
    assert order == "random"
    assert (last["losses"], last["found"], last["labels"]) == (30, 0, [[-1, 30]])


@pytest.mark.parametrize(
    "case",
    [
        {"loss": "F.cross_entropy(out, torch.zeros(len(x), dtype=torch.long))"},
        {"loader": "batch_size=4"},
        {"loss": "F.cross_entropy(out, y.masked_fill(torch.arange(len(y)) == 0, -100))"},
    ],
)
def test_labels_that_are_not_the_loaders(tmp_path, case):
    """Of a contrastive loss, of two losses, of none; few; with places to ignore."""
    seen = labels_of(tmp_path, **case)[0]
    assert all(item["losses"] < JUDGED / 2 for item in seen)  # the first labels of ordered data may agree by chance


DEAD = """
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, {outputs}))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(40):
    if step == {dies}:
        with torch.no_grad():
            model[0].bias.fill_(-50)
    x = torch.randn(16, 4)
    out = model(x)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("outputs", "loss"),
    [
        (3, "F.cross_entropy(out, x.argmax(1) % 3)"),
        (1, "F.binary_cross_entropy_with_logits(out, (x[:, :1] > 0).float())"),
    ],
)
def test_outputs_that_are_the_same_for_every_sample(tmp_path, outputs, loss):
    run = run_script(tmp_path, DEAD.format(outputs=outputs, loss=loss, dies=5))
    last = told(run, "alike")[-1]
    assert (last["since"], last["step"], last["found"]) == (5, 39, 35)
    (tmp_path / "well").mkdir()
    assert told(run_script(tmp_path / "well", DEAD.format(outputs=outputs, loss=loss, dies=-1)), "alike") == []


OUTSIDE = """
from torch import nn
import torch.nn.functional as F

head, words = nn.Linear(4, 7), nn.Embedding(30, 4)
labels = torch.arange(12) % 8
{}
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("F.cross_entropy(head(torch.randn(12, 4)), labels)", ("label", 0, 7, 7)),
        ("nn.NLLLoss()(head(torch.randn(12, 4)), labels - 1)", ("label", -1, 6, 7)),
        ("words(labels * 5)", ("index", 0, 35, 30)),
    ],
)
def test_a_label_or_an_index_that_there_is_not(tmp_path, line, expected):
    run = run_script(tmp_path, OUTSIDE.format(line), code=1)
    [death] = run.rank.of("exception")
    found = death["beyond"]
    assert (found and tuple(found[name] for name in ("what", "least", "most", "count"))) == expected


@pytest.mark.parametrize(("old", "always"), [("new.detach()", True), ("old", False)])
def test_ratios_of_probabilities(tmp_path, old, always):
    program = f"""
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x = torch.stack([x for x, _ in data(16)])
old = model(x).log_softmax(1).detach() - 0.1
for _ in range(20):
    new = model(x).log_softmax(1)
    ratio = (new - {old}).exp()
    loss = -torch.min(ratio, ratio.clamp(0.8, 1.2)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    run = run_script(tmp_path, program)
    told = [item for item in run.rank.of("numeric") if item["kind"] == "ratio"]
    assert [item["found"] == item["of"] >= 20 for item in told[-1:]] == [True] * always
