import pytest
from programs import event, loops, plain, read_main, read_program, training

from gpudoctor.model.signs.source import LoopRole

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
model = nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
train_loader = DataLoader(data, batch_size=4)
val_loader = DataLoader(other, batch_size=4)
"""


def roles(text: str, head: str = HEAD) -> dict[str, str]:
    """What each loop iterates over, and its role."""
    script = read_main(head + text)
    return {loop.iterates or "while": loop.role.value for loop in script.loops}


def test_a_plain_loop() -> None:
    text = """
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            total = F.cross_entropy(model(x.cuda()), y.cuda()).item()
"""
    script = read_main(HEAD + text)
    assert [loop.role.value for loop in script.loops] == ["epochs", "training", "evaluation"]
    loop = training(script)
    assert loop.iterates == "train_loader"
    assert loop.iterable_type == "torch.utils.data.DataLoader"
    assert loop.targets == ("x", "y")
    assert loop.function == ""
    assert [p.role for p in loop.parents] == [LoopRole.EPOCHS]
    assert loop.accumulates is None
    assert loop.confident
    assert [e.call.method for e in loop.events if e.call] == [
        "zero_grad", "cuda", "__call__", "cuda", "cross_entropy", "backward", "step",
    ]  # fmt: skip
    assert event(loop, ".backward").call.receiver_device == "cuda"
    [epochs] = loops(script, LoopRole.EPOCHS)
    item = event(epochs, "torch.Tensor.item")
    assert item.evaluation
    assert item.no_grad
    assert [inner.role for inner in item.inner] == [LoopRole.EVALUATION]
    assert not event(epochs, ".backward").evaluation


BODY = """
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("while True:\n    x, y = batch()\n" + BODY.replace("        ", "    "), {"while": "training"}),
        ("it = iter(train_loader)\nfor step in range(100):\n    x, y = next(it)\n" + BODY.replace("        ", "    "), {"range(100)": "training"}),
        ("for epoch in range(3):\n    for i, (x, y) in enumerate(train_loader):" + BODY, {"range(3)": "epochs", "enumerate(train_loader)": "training"}),
        ("for x in train_loader:\n    for t in range(5):\n        x = model(x)\n    x.sum().backward()\n    optimizer.step()", {"train_loader": "training", "range(5)": "other"}),
        ("for x in train_loader:\n    for loss in losses(model(x)):\n        loss.backward()\n    optimizer.step()", {"train_loader": "training", "losses(model(x))": "other"}),
        ("def closure():\n    optimizer.zero_grad()\n    loss = model(x).sum()\n    loss.backward()\n    return loss\nfor i in range(20):\n    optimizer.step(closure)", {"range(20)": "training"}),
        ("for x in train_loader:\n    with torch.autocast('cuda'):\n        loss = model(x).sum()\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()", {"train_loader": "training"}),
        ("for x in train_loader:\n    for k in range(5):\n        d(x).backward()\n        optimizer.step()\n    g(x).backward()\n    optimizer.step()", {"train_loader": "epochs", "range(5)": "training"}),
        ("for i in range(10):\n    for t in range(200):\n        action = model(state)\n    for k in range(4):\n        model(state).sum().backward()\n        optimizer.step()", {"range(10)": "epochs", "range(200)": "other", "range(4)": "training"}),
        ("for x in train_loader:\n    loss = model(x).sum()\n    loss.backward()\n    unknown_update(model)", {"train_loader": "training"}),
        ("for x, y in train_loader:\n    if x is None:\n        continue\n    try:\n        model(x).sum().backward()\n        optimizer.step()\n    except RuntimeError:\n        continue", {"train_loader": "training"}),
        ("for epoch in range(3):\n    for x in train_loader:\n        model(x).sum().backward()\n    optimizer.step()", {"range(3)": "epochs", "train_loader": "training"}),
    ],
)  # fmt: skip
def test_roles(text: str, expected: dict[str, str]) -> None:
    assert roles(text) == expected


def test_through_functions_and_methods() -> None:
    text = """
def train_step(x):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss
class Runner:
    def __init__(self, model):
        self.model = model
    def epoch(self, loader):
        for x in loader:
            self.one(x)
    def one(self, x):
        loss = train_step(x)
        self.log(loss)
    def log(self, loss):
        print(loss.item())
runner = Runner(model)
for epoch in range(3):
    runner.epoch(train_loader)
"""
    script = read_main(HEAD + text)
    loop = training(script)
    assert (loop.function, loop.iterates) == ("Runner.epoch", "loader")
    assert loop.iterable_type == "torch.utils.data.DataLoader"
    [epochs] = loops(script, LoopRole.EPOCHS)
    assert epochs.iterates == "range(3)"
    item = event(loop, "torch.Tensor.item")
    assert [span.text for span in item.via] == ["self.one(x)", "self.log(loss)"]
    loss = item.thing(item.node.func.value)
    assert (loss.type, loss.device) == ("torch.Tensor", "cuda")
    assert len(list(epochs.calls(".backward"))) == 1


def test_through_modules_beside_the_script() -> None:
    files = {
        "engine.py": """
            import torch
            def train_one_epoch(model, loader, optimizer, device):
                for x, y in loader:
                    loss = model(x.to(device)).sum()
                    loss.backward()
                    optimizer.step()
            @torch.no_grad()
            def evaluate(model, loader):
                for x, y in loader:
                    model(x)
        """
    }
    text = "import engine\nfor epoch in range(9):\n    engine.train_one_epoch(model, train_loader, optimizer, 'cuda')\n    engine.evaluate(model, val_loader)\n"
    source = read_program(HEAD + text, files=files)
    main, engine = source.scripts
    assert main.entry
    assert not engine.entry
    assert [loop.role.value for loop in main.loops] == ["epochs"]
    assert [loop.role.value for loop in engine.loops] == ["training", "evaluation"]
    assert engine.loops[0].iterable_type == "torch.utils.data.DataLoader"
    assert source.trains
    alone = read_main(files["engine.py"])
    assert [loop.role.value for loop in alone.loops] == ["training", "evaluation"]


def test_recursion_and_cycles_end() -> None:
    text = """
def a(x):
    b(x)
    model(x).sum().backward()
def b(x):
    a(x)
    optimizer.step()
for x in train_loader:
    a(x)
"""
    assert roles(text)["train_loader"] == "training"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for i, x in enumerate(train_loader):\n    (model(x).sum() / 4).backward()\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()", 4),
        ("N = 8\nfor step in range(100):\n    for micro in range(N):\n        model(x).sum().backward()\n    optimizer.step()", 8),
        ("for i, x in enumerate(train_loader):\n    model(x).sum().backward()\n    if i % 1 == 0:\n        optimizer.step()", None),
        ("for i, x in enumerate(train_loader):\n    model(x).sum().backward()\n    if (i + 1) % n() == 0:\n        optimizer.step()", "?"),
    ],
)  # fmt: skip
def test_accumulation(text: str, expected: object) -> None:
    loop = training(read_main(HEAD + text))
    assert (plain(loop.accumulates) if loop.accumulates is not None else None) == expected


def test_a_generator_of_the_program_draws_from_its_loader() -> None:
    text = """
def logged(loader, every):
    for i, item in enumerate(loader):
        yield item
for x, y in logged(train_loader, 10):
    model(x).sum().backward()
    optimizer.step()
"""
    loop = training(read_main(HEAD + text))
    assert loop.iterable_type == "torch.utils.data.DataLoader"
    [step] = list(loop.calls("torch.nn.Linear.__call__"))
    x = step.thing(step.node.args[0])
    assert (x.type, x.device) == ("torch.Tensor", "cpu")


PROBE = """
import torch
import torch.nn.functional as F
from elsewhere import {imported}
model = torch.nn.Linear(3, 4).eval()
loader = torch.utils.data.DataLoader(data, batch_size=4)
held = {{name: torch.zeros_like(p) for name, p in model.named_parameters()}}
for step, (x, y) in enumerate(loader):
    x = x.requires_grad_(True)
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    {after}
"""


@pytest.mark.parametrize(
    ("after", "imported"),
    [("optimizer.step()", "optimizer"), ("sgd_step(model)", "sgd_step"), ("opt.update(model)", "opt")],
)
def test_an_update_elsewhere_is_a_step(after: str, imported: str) -> None:
    script = read_main(PROBE.format(after=after, imported=imported))
    assert any(loop.role is LoopRole.TRAINING for loop in script.loops)
