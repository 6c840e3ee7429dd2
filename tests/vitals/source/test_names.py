import pytest
from programs import call_names, read_main

TORCH = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from torch.utils.data import DataLoader as DL\nDL(x)", "torch.utils.data.DataLoader"),
        ("import torch\ntorch.amp.autocast('cuda')", "torch.autocast"),
        ("from tensorboardX import SummaryWriter\nSummaryWriter()", "torch.utils.tensorboard.SummaryWriter"),
        ("log = print\nlog(1)", "log"),
        ("import torch\nempty = torch.cuda.empty_cache\nempty()", "torch.cuda.empty_cache"),
        (
            "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\namp.initialize()",
            "apex.amp.initialize",
        ),
        ("def print(x):\n    pass\nprint(1)", "main.print"),
        ("class Meter:\n    def update(self, v):\n        pass\nm = Meter()\nm.update(1)", "Meter.update"),
        ("from torch.optim.lr_scheduler import *\nimport torch\ntorch.save(x, 'f')", "torch.save"),
        ("f(1)(2)", "?.call"),
        ("(lambda: 1)()", "?.lambda"),
    ],
)
def test_resolved_names(text: str, name: str) -> None:
    assert name in call_names(read_main(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model = nn.Linear(3, 4)\nmodel.train()", "torch.nn.Module.train"),
        ("model = nn.Linear(3, 4)\nmodel(x)", "torch.nn.Linear.__call__"),
        ("class Net(nn.Module):\n    def forward(self, x):\n        return x\nnet = Net()\nnet(1)", "torch.nn.Module.__call__"),
        ("opt = optim.AdamW(p)\nopt.step()", "torch.optim.Optimizer.step"),
        ("s = optim.lr_scheduler.StepLR(o, 1)\ns.step()", "torch.optim.lr_scheduler.LRScheduler.step"),
        ("s = torch.amp.GradScaler()\ns.scale(loss).backward()", "?.backward"),
        ("for x, y in DataLoader(d):\n    x.cuda()", "torch.Tensor.cuda"),
        ("for batch in DataLoader(d):\n    b = {k: v.cuda() for k, v in batch.items()}", "torch.Tensor.cuda"),
        ("def go(o: optim.Optimizer):\n    o.step()", "torch.optim.Optimizer.step"),
        ("def go(m: 'nn.Module | None' = None):\n    m.eval()", "torch.nn.Module.eval"),
        ("class T:\n    def __init__(self, o):\n        self.o = o\n    def go(self):\n        self.o.step()\nT(optim.SGD(p)).go()", "torch.optim.Optimizer.step"),
        ("class T:\n    def __init__(self):\n        self.m = nn.Linear(1, 2)\n    def go(self, x):\n        self.m(x)", "torch.nn.Linear.__call__"),
        ("from accelerate import Accelerator\na = Accelerator()\nm, o, dl = a.prepare(nn.Linear(1, 2), optim.SGD(p), DataLoader(d))\no.step()", "torch.optim.Optimizer.step"),
        ("import deepspeed\ne, o, _, _ = deepspeed.initialize(model=nn.Linear(1, 2))\ne.backward(loss)", "deepspeed.DeepSpeedEngine.backward"),
        ("from transformers import AutoModelForCausalLM as A\nm = A.from_pretrained('x')\nm(ids).loss.item()", "torch.Tensor.item"),
        ("layers = nn.ModuleList([nn.Linear(1, 2)])\nfor layer in layers:\n    layer(x)", "torch.nn.Linear.__call__"),
        ("def step(optimizer):\n    optimizer.step()", "torch.optim.Optimizer.step"),
        ("import contextlib\n@contextlib.contextmanager\ndef held():\n    yield optim.SGD(p)\nwith held() as o:\n    o.step()", "torch.optim.Optimizer.step"),
        ("losses = []\nlosses.append(torch.ones(3))\nlosses[0].item()", "torch.Tensor.item"),
    ],
)  # fmt: skip
def test_methods_by_the_type_of_their_object(text: str, name: str) -> None:
    assert name in call_names(read_main(TORCH + text))


def test_names_of_local_modules() -> None:
    files = {
        "engine.py": "import torch\ndef evaluate(m):\n    m.eval()\nclass Loop:\n    def run(self): pass\n",
        "pack/__init__.py": "from .nets import Net\n",
        "pack/nets.py": "from torch import nn\nfrom . import parts\nclass Net(nn.Module):\n    pass\n",
        "pack/parts.py": "import torch\n",
        "src/lib/tools.py": "import torch\ndef sync():\n    torch.cuda.synchronize()\n",
    }
    script = read_main(
        "import engine\nfrom engine import evaluate, Loop\nfrom pack import Net\nfrom lib.tools import sync\n"
        "evaluate(Net())\nLoop().run()\nm = Net()\nm.train()\nsync()\n",
        files=files,
    )
    names = call_names(script)
    assert "engine.evaluate" in names
    assert "torch.nn.Module.train" in names
    assert "Loop.run" in names
    assert "lib.tools.sync" in names


def test_types_and_devices() -> None:
    script = read_main(
        TORCH
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 2)
class Crops(Dataset):
    pass
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
big = Net().cuda()
small = Net()
half = Net()
half.to("cuda:1")
data = Crops()
loader = DataLoader(data)
opt = optim.AdamW(model.parameters())
for x, y in loader:
    z = x.to(device)
    out = model(z)
use(model, data, loader, opt, out, device, big, small, half, x, z)
"""
    )
    [use] = script.calls_to("use")
    names = ("model", "data", "loader", "opt", "out", "device", "big", "small", "half", "x", "z")
    things = {name: script.thing(arg) for name, arg in zip(names, use.node.args, strict=True)}
    assert things["model"].type == "torch.nn.Module"
    assert things["data"].type == "torch.utils.data.Dataset"
    assert things["loader"].type == "torch.utils.data.DataLoader"
    assert things["opt"].type == "torch.optim.AdamW"
    assert things["out"].type == "torch.Tensor"
    devices = {name: things[name].device for name in ("device", "model", "big", "small", "half", "x", "z", "out")}
    assert devices == {
        "device": "maybe-cuda", "model": "maybe-cuda", "big": "cuda", "small": "cpu", "half": "cuda", "x": "cpu",
        "z": "maybe-cuda", "out": "maybe-cuda",
    }  # fmt: skip
    assert "torch.nn.Module" in script.classes["Net"].bases
    assert list(script.classes["Net"].methods) == ["__init__"]
