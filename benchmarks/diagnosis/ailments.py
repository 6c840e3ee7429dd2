"""The corpus: ailments and their cures, written from the catalogue's definitions.

A case is what is put into the places of `skeletons.py`: once sick, once well. The guilty line carries `# sick`;
the well twin does the same work in good order, so that a finding there is a false alarm.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Ailment:
    """One ailment in one way of having it."""

    name: str
    codes: tuple[str, ...]
    """The code that should come first; others that name the same cause are as good."""
    sick: dict[str, str]
    well: dict[str, str]
    ranks: int = 1
    fails: bool = False
    """Whether the sick program dies."""
    flags: tuple[str, ...] = ()
    """More flags of `gpudoctor run`."""
    tolerated: tuple[str, ...] = field(default=())
    """Codes that may speak of the well twin, because what they say is true of it by construction."""


DECODE = '''
def decode(index):
    """Some milliseconds of real work for one item, as an image decoder has."""
    value = index
    for turn in range({turns}):
        value = (value * 1103515245 + 12345) % 2147483648
    return value
'''
ITEM = {"functions": DECODE.format(turns=4000), "epochs": "6", "rows": "1024"}
EVALUATE = """
def evaluate(model, rows={rows}):
    model.eval()
    with torch.no_grad():
        for start in range(0, rows, 64):
            model(torch.randn(64, 64))
    model.train()
"""
FIT = "model, optimizer, loader"
SUMS = {
    "dataset": "self.y = self.x.sum(dim=1)",
    "model": "nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 1))",
}
"""A regression."""

AILMENTS: list[Ailment] = [
    Ailment(
        name="loader-bound", codes=("DATA001", "DATA002"),
        sick={**ITEM, "item": "decode(index)  # sick"},
        well={"epochs": "6", "dataset": "self.x = self.x / self.x.std()"},
    ),
    Ailment(
        name="slow-collate", codes=("DATA002", "DATA001"),
        sick={
            "functions": "def collate(rows):\n    total = 0.0\n    for x, _ in rows:\n        for value in x.tolist():"
            "  # sick\n            total += value * value\n"
            "    return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])\n",
            "loader": "batch_size=64, shuffle=True, collate_fn=collate", "epochs": "8",
        },
        well={
            "functions": "def collate(rows):\n"
            "    return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])\n",
            "loader": "batch_size=64, shuffle=True, collate_fn=collate", "epochs": "8",
        },
    ),
    Ailment(
        name="workers-respawned", codes=("DATA003",),
        sick={"rows": "256", "epochs": "24", "loader": "batch_size=64, shuffle=True, num_workers=2  # sick"
              .replace("  # sick", ""), "setup": "# sick: workers start again with every short epoch"},
        well={"rows": "256", "epochs": "24",
              "loader": "batch_size=64, shuffle=True, num_workers=2, persistent_workers=True"},
    ),
    Ailment(
        name="dataset-reopens", codes=("DATA011", "DATA002", "DATA001"),
        sick={
            "imports": "import os\nimport pickle\nimport tempfile",
            "setup": "path = os.path.join(tempfile.mkdtemp(), 'table.pkl')\n"
            "with open(path, 'wb') as stream:\n    pickle.dump([[float(n)] * 8 for n in range(6000)], stream)",
            "item": "with open(path, 'rb') as stream:  # sick\n    table = pickle.load(stream)\n"
            "weight = table[index % 6000][0]",
            "rows": "512", "epochs": "2",
        },
        well={
            "imports": "import os\nimport pickle\nimport tempfile",
            "setup": "path = os.path.join(tempfile.mkdtemp(), 'table.pkl')\n"
            "with open(path, 'wb') as stream:\n    pickle.dump([[float(n)] * 8 for n in range(6000)], stream)",
            "dataset": "with open(path, 'rb') as stream:\n    self.table = pickle.load(stream)",
            "item": "weight = self.table[index % 6000][0]",
        },
    ),
    Ailment(
        name="slow-start", codes=("DATA012",),
        sick={
            "functions": "def tokenize(text):\n    return [hash(word) % 5000 for word in text.split()]\n\n\n"
            "def prepare(count):\n    return [tokenize('some words of a long text ' * 60) for _ in range(count)]\n",
            "before": "texts = prepare(90000)  # sick", "epochs": "8",
        },
        well={
            "functions": "def tokenize(text):\n    return [hash(word) % 5000 for word in text.split()]\n\n\n"
            "def prepare(count):\n    return [tokenize('some words of a long text ' * 60) for _ in range(count)]\n",
            "before": "texts = prepare(300)", "epochs": "8",
        },
        tolerated=("DATA012",),
    ),
    Ailment(
        name="garbage-collection", codes=("SYNC002",),
        sick={"imports": "import gc", "after_step": "gc.collect()  # sick"},
        well={"imports": "import gc", "epoch_end": "if epoch % 8 == 7:\n    gc.collect()"},
    ),
    Ailment(
        name="per-sample-metrics", codes=("SYNC004", "SYNC001"),
        sick={
            "setup": "hits = []",
            "after_step": "for row in range(len(y)):  # sick\n"
            "    hits.append(int(out[row].argmax().item() == y[row].item()))",
        },
        well={"setup": "hits = []", "after_step": "if step % 50 == 0:\n"
              "    hits.append((out.argmax(dim=1) == y).float().mean().item())"},
    ),
    Ailment(
        name="profiler-in-loop", codes=("OBS001",),
        sick={
            "imports": "from torch.profiler import ProfilerActivity, profile",
            "forward": "with profile(activities=[ProfilerActivity.CPU]) as prof:  # sick\n    out = model(x)\n"
            "table = prof.key_averages().table(row_limit=5)",
            "epochs": "4",
        },
        well={"epochs": "12"},
    ),
    Ailment(
        name="logging-each-step", codes=("OBS002", "OBS007"),
        sick={
            "imports": "import json\nimport logging\nimport tempfile",
            "setup": "log = logging.getLogger('train')\nlog.setLevel(logging.INFO)\nlog.propagate = False\n"
            "log.addHandler(logging.FileHandler(tempfile.mktemp(suffix='.log')))",
            "after_step": "for name, p in model.named_parameters():\n"
            "    log.info('%s %s', name, json.dumps(p.detach().flatten()[:800].tolist()))  # sick",
        },
        well={
            "imports": "import json\nimport logging\nimport tempfile",
            "setup": "log = logging.getLogger('train')\nlog.setLevel(logging.INFO)\nlog.propagate = False\n"
            "log.addHandler(logging.FileHandler(tempfile.mktemp(suffix='.log')))",
            "after_step": "if step % 100 == 0:\n    log.info('step %d loss %.4f', step, loss.item())",
        },
    ),
    Ailment(
        name="log-fsync", codes=("OBS007", "OBS002"),
        sick={
            "imports": "import os\nimport tempfile", "setup": "log = open(tempfile.mktemp(dir='.'), 'w')",
            "after_step": "log.write(f'{step}\\n' * 50)\nlog.flush()\nos.fsync(log.fileno())  # sick",
        },
        well={
            "imports": "import os\nimport tempfile", "setup": "log = open(tempfile.mktemp(dir='.'), 'w')",
            "after_step": "if step % 50 == 0:\n    log.write(f'{step}\\n')",
        },
    ),
    Ailment(
        name="checkpoint-too-often", codes=("OBS003",),
        sick={"imports": "import tempfile", "setup": "folder = tempfile.mkdtemp()",
              "after_step": "if step % 4 == 0:\n"
              "    torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, folder + '/last.pt')"
              "  # sick"},
        well={"imports": "import tempfile", "setup": "folder = tempfile.mkdtemp()", "epochs": "24",
              "after": "torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, "
              "folder + '/last.pt')"},
    ),
    Ailment(
        name="evaluation-too-often", codes=("OBS004",),
        sick={"functions": EVALUATE.format(rows=2048),
              "after_step": "if step % 10 == 0:\n    evaluate(model)  # sick"},
        well={"functions": EVALUATE.format(rows=256), "epochs": "24",
              "epoch_end": "if epoch % 12 == 11:\n    evaluate(model)"},
    ),
    Ailment(
        name="anomaly-mode", codes=("OBS005",),
        sick={"before": "torch.autograd.set_detect_anomaly(True)  # sick"},
        well={},
    ),
    Ailment(
        name="histograms", codes=("OBS006", "OBS002"),
        sick={
            "setup": "history = {}",
            "functions": "def watch(model, step):\n    for name, p in model.named_parameters():\n"
            "        history[name, step % 5] = torch.histogram(p.detach(), bins=512)  # sick\n",
            "after_step": "watch(model, step)",
        },
        well={
            "setup": "history = {}",
            "functions": "def watch(model, step):\n    for name, p in model.named_parameters():\n"
            "        history[name, step % 5] = torch.histogram(p.detach(), bins=512)\n",
            "after_step": "if step % 200 == 199:\n    watch(model, step)",
        },
    ),
    Ailment(
        name="host-leak", codes=("MEM002",),
        sick={"setup": "seen = []", "after_step": "seen.append(x.repeat(16, 1).clone())  # sick", "epochs": "24"},
        well={"setup": "seen = []", "epochs": "24",
              "after_step": "seen.append(x.repeat(16, 1).clone())\ndel seen[:-8]"},
    ),
    Ailment(
        name="graph-retained", codes=("MEM003", "MEM002"),
        sick={"setup": "losses = []", "after_step": "losses.append(loss)  # sick", "epochs": "24"},
        well={"setup": "losses = []", "after_step": "losses.append(loss.detach())", "epochs": "24"},
    ),
    Ailment(
        name="nan-loss", codes=("NUM002", "NUM001"),
        sick={"loss": "loss = F.cross_entropy(out, y) + torch.log(0.5 - out.detach().std() - 0.02 * step"
              ").abs() * 0 + torch.log(torch.tensor(150.0 - step)) * 0  # sick"},
        well={"loss": "loss = F.cross_entropy(out, y) + torch.log(torch.tensor(150.0 + step)) * 0"},
    ),
    Ailment(
        name="nan-gradient", codes=("NUM001", "NUM002"),
        sick={"loss": "norm = ((out - out) ** 2).sum().sqrt()  # sick\n"
              "loss = F.cross_entropy(out, y) + (norm if step > 100 else 0)"},
        well={"loss": "norm = ((out - out) ** 2).sum().add(1e-6).sqrt()\n"
              "loss = F.cross_entropy(out, y) + (norm if step > 100 else 0)"},
    ),
    Ailment(
        name="exploding-gradients", codes=("NUM003", "NUM007", "NUM002", "NUM001"),
        sick={"loss": "loss = F.cross_entropy(out, y) * (1.2 ** max(0, step - 60))  # sick",
              "optimizer": "torch.optim.SGD(model.parameters(), lr=1e-9)"},
        well={"loss": "loss = F.cross_entropy(out, y)"},
    ),
    Ailment(
        name="vanishing-gradients", codes=("NUM004",),
        sick={"model": "nn.Sequential(nn.Linear(64, 256), nn.Sigmoid(), *[layer for _ in range(16) for layer in "
              "(nn.Linear(256, 256), nn.Sigmoid())], nn.Linear(256, 10))", "setup": "# sick: the model below"},
        well={"model": "nn.Sequential(nn.Linear(64, 256), nn.ReLU(), *[layer for _ in range(4) for layer in "
              "(nn.Linear(256, 256), nn.ReLU())], nn.Linear(256, 10))"},
    ),
    Ailment(
        name="dead-parameters", codes=("NUM005",),
        sick={
            "functions": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.body = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())\n"
            "        self.branch = nn.Linear(512, 512)\n        self.head = nn.Linear(512, 10)\n\n"
            "    def forward(self, x):\n        hidden = self.body(x)\n"
            "        return self.head(hidden + self.branch(hidden).detach())  # sick\n\n",
            "model": "Net()",
        },
        well={
            "functions": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.body = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())\n"
            "        self.branch = nn.Linear(512, 512)\n        self.head = nn.Linear(512, 10)\n\n"
            "    def forward(self, x):\n        hidden = self.body(x)\n"
            "        return self.head(hidden + self.branch(hidden))\n\n",
            "model": "Net()",
        },
    ),
    Ailment(
        name="diverging", codes=("NUM007", "NUM009", "NUM003", "NUM002", "NUM001"),
        sick={"optimizer": "torch.optim.SGD(model.parameters(), lr=6.0)  # sick".replace("  # sick", ""),
              "setup": "# sick: the rate below"},
        well={"optimizer": "torch.optim.SGD(model.parameters(), lr=0.01)"},
    ),
    Ailment(
        name="weights-frozen", codes=("NUM008",),
        sick={"imports": "import copy",
              "optimizer": "torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.01)",
              "setup": "# sick: the optimizer below holds a copy's parameters"},
        well={"imports": "import copy", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.01)"},
    ),
    Ailment(
        name="learning-rate", codes=("NUM009",),
        sick={"optimizer": "torch.optim.AdamW(model.parameters(), lr=0.2)",
              "setup": "# sick: the rate below"},
        well={"optimizer": "torch.optim.AdamW(model.parameters(), lr=0.0005)"},
    ),
    Ailment(
        name="zero-grad-missing", codes=("LOOP001",),
        sick={"zero_grad": "pass", "optimizer_step": "optimizer.step()  # sick"},
        well={},
    ),
    Ailment(
        name="left-in-eval", codes=("LOOP002",),
        sick={
            "model": "nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Dropout(0.1), nn.Linear(768, 768), nn.ReLU(), "
            "nn.Linear(768, 10))",
            "functions": EVALUATE.format(rows=128).replace("    model.train()\n", "").replace(
                "    model.eval()", "    model.eval()  # sick"),
            "epoch_end": "evaluate(model)",
        },
        well={
            "model": "nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Dropout(0.1), nn.Linear(768, 768), nn.ReLU(), "
            "nn.Linear(768, 10))",
            "functions": EVALUATE.format(rows=128), "epoch_end": "evaluate(model)",
        },
    ),
    Ailment(
        name="teacher-trained", codes=("LOOP011",),
        sick={
            "model_made": "teacher = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))",
            "functions": "teacher = None\n",
            "setup": "teachers = {}",
            "before": "teachers['one'] = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 10))",
            "loss": "soft = teachers['one'](x).softmax(dim=1)  # sick\n"
            "loss = F.cross_entropy(out, y) + F.kl_div(out.log_softmax(dim=1), soft, reduction='batchmean')",
        },
        well={
            "setup": "teachers = {}",
            "before": "teachers['one'] = nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 10)).eval()",
            "loss": "with torch.no_grad():\n    soft = teachers['one'](x).softmax(dim=1)\n"
            "loss = F.cross_entropy(out, y) + F.kl_div(out.log_softmax(dim=1), soft, reduction='batchmean')",
        },
    ),
    Ailment(
        name="step-time-drift", codes=("PERF013", "OBS002", "PERF014"),
        sick={"setup": "curve = []", "epochs": "24",
              "after_step": "curve.append(loss.item())\n"
              "smooth = [sum(curve[k] for k in range(max(0, i - 200), i + 1)) for i in range(len(curve))]  # sick"},
        well={"setup": "curve = []", "epochs": "24",
              "after_step": "curve.append(loss.item())\nsmooth = sum(curve[-30:])"},
    ),
    Ailment(
        name="unexplained-time", codes=("PERF014",),
        sick={
            "functions": "def penalty(step):\n    total = 0\n    for n in range(60000):  # sick\n"
            "        total += (n * step) % 7\n    return total\n",
            "after_step": "penalty(step)",
        },
        well={
            "functions": "def penalty(step):\n    return step % 7\n", "after_step": "penalty(step)",
        },
    ),
    Ailment(
        name="double-softmax", codes=("LOOP006",),
        sick={"loss": "loss = F.cross_entropy(out.softmax(dim=1), y)  # sick"},
        well={"loss": "loss = F.cross_entropy(out, y)"},
    ),
    Ailment(
        name="clip-after-step", codes=("LOOP004",),
        sick={"optimizer_step": "optimizer.step()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # sick"},
        well={"optimizer_step": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"},
    ),
    Ailment(
        name="exception", codes=("FAIL001",), fails=True,
        sick={"step_start": "if step == 120:\n    x = x[:, :50]", "forward": "out = model(x)  # sick"},
        well={},
    ),
    Ailment(
        name="silent-broadcast", codes=("LOOP012",),
        sick={**SUMS, "loss": "loss = F.smooth_l1_loss(out, y)  # sick"},
        well={**SUMS, "loss": "loss = F.smooth_l1_loss(out.squeeze(1), y)"},
    ),
    Ailment(
        name="constant-output", codes=("NUM010", "NUM005"),
        sick={"forward": "out = model[4](F.relu(model[2](model[1](model[0](x))) - 60))  # sick"},
        well={"forward": "out = model[4](F.relu(model[2](model[1](model[0](x)))))"},
    ),
    Ailment(
        name="constant-target", codes=("NUM011",),
        sick={"dataset": "self.y = self.y // 10  # sick"},
        well={"dataset": "self.y = self.y // 2"},
    ),
    Ailment(
        name="not-shuffled", codes=("DATA013",),
        sick={"dataset": "self.y = self.y.sort().values", "loader": "batch_size=16",
              "setup": "# sick: the loader goes through classes in order"},
        well={"dataset": "self.y = self.y.sort().values", "loader": "batch_size=16, shuffle=True"},
    ),
    Ailment(
        name="same-seed", codes=("DATA014",),
        sick={"imports": "import numpy as np", "loader": "batch_size=64, shuffle=True, num_workers=2, persistent_workers=True",
              "dataset": "self.random = np.random.default_rng(0)",
              "item": "if self.random.random() < 0.5:  # sick\n    return -self.x[index], self.y[index]"},
        well={"imports": "import numpy as np", "loader": "batch_size=64, shuffle=True, num_workers=2, persistent_workers=True",
              "item": "if np.random.random() < 0.5:\n    return -self.x[index], self.y[index]"},
    ),
    Ailment(
        name="label-outside", codes=("FAIL001",), fails=True,
        sick={"dataset": "self.y = self.y + 1", "loss": "loss = F.cross_entropy(out, y)  # sick"},
        well={"dataset": "self.y = self.y + 1", "loss": "loss = F.cross_entropy(out, y - 1)"},
    ),
    Ailment(
        name="killed", codes=("FAIL002",), fails=True,
        sick={"imports": "import os\nimport signal",
              "after_step": "if step == 120:\n    os.kill(os.getpid(), signal.SIGKILL)  # sick"},
        well={"imports": "import os\nimport signal"},
    ),
    Ailment(
        name="segfault", codes=("FAIL006",), fails=True,
        sick={"imports": "import ctypes", "after_step": "if step == 120:\n    ctypes.string_at(0)  # sick"},
        well={"imports": "import ctypes"},
    ),
    Ailment(
        name="worker-dies", codes=("DATA010", "FAIL001", "FAIL005"), fails=True,
        sick={"imports": "import os", "loader": "batch_size=64, shuffle=True, num_workers=1",
              "item": "if index == 900:\n    os._exit(3)  # sick"},
        well={"imports": "import os", "loader": "batch_size=64, shuffle=True, num_workers=1, persistent_workers=True",
              "epochs": "8"},
    ),
    Ailment(
        name="straggler", codes=("DIST001",), ranks=2,
        sick={
            "imports": "import os\nimport time\nimport torch.distributed as dist\n"
            "from torch.nn.parallel import DistributedDataParallel",
            "model_made": "dist.init_process_group('gloo')\nmodel = DistributedDataParallel(model)",
            "item": "if os.environ['RANK'] == '1':\n    time.sleep(0.0003)  # sick",
            "after": "dist.destroy_process_group()", "epochs": "8",
        },
        well={
            "imports": "import os\nimport time\nimport torch.distributed as dist\n"
            "from torch.nn.parallel import DistributedDataParallel",
            "model_made": "dist.init_process_group('gloo')\nmodel = DistributedDataParallel(model)",
            "after": "dist.destroy_process_group()", "epochs": "8",
        },
        tolerated=("DATA008", "DIST002", "DIST001", "ENV007"),
    ),
    Ailment(
        name="redundant-collectives", codes=("DIST004",), ranks=2,
        sick={
            "imports": "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel",
            "model_made": "dist.init_process_group('gloo')\nmodel = DistributedDataParallel(model)",
            "after_step": "for p in model.parameters():\n    dist.broadcast(p.data, 0)  # sick",
            "after": "dist.destroy_process_group()", "epochs": "8",
        },
        well={
            "imports": "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel",
            "model_made": "dist.init_process_group('gloo')\nmodel = DistributedDataParallel(model)",
            "after": "dist.destroy_process_group()", "epochs": "8",
        },
        tolerated=("DATA008", "DIST002", "DIST001", "ENV007"),
    ),
]  # fmt: skip
