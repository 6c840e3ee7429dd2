"""What no entry point reaches is cut out: what is left is what checks see."""

import ast

import pytest

from gpudoctor.vitals.source import read_source

TRAIN = """import torch
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    for x in torch.utils.data.DataLoader(list(range(9))):
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def names(tmp_path):
    def read(files, targets=("train.py",)):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = read_source([tmp_path / name for name in targets], {})
        calls = {call.name for script in found.scripts for call in script.calls}
        defined = {
            node.name
            for script in found.scripts
            for node in ast.walk(script.tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        return calls, defined

    return read


UNREACHED = [
    "def old():\n    torch.save(1, 'x')\n",
    "class Other(torch.nn.Module):\n    def forward(self, x):\n        torch.save(1, 'x')\n",
    "class Used:\n    def go(self): ...\n    def never(self):\n        torch.save(1, 'x')\nUsed().go()\n",
    "DEBUG = False\nif DEBUG and model is not None:\n    torch.save(1, 'x')\n",
    "def settle():\n    torch.save(1, 'x')\nsettle\n",
]


@pytest.mark.parametrize("text", UNREACHED)
def test_what_nothing_reaches_is_cut(names, text):
    calls, _ = names({"train.py": TRAIN + text + "train()\n"})
    assert "torch.save" not in calls
    assert "torch.optim.SGD" in calls


REACHED = [
    "def now():\n    torch.save(1, 'x')\nnow()\n",
    "def hook(*a):\n    torch.save(1, 'x')\nmodel.register_forward_hook(hook)\n",
    "class Net(torch.nn.Module):\n    def forward(self, x):\n        torch.save(1, 'x')\nnet = Net()\n",
    "class Base:\n    def go(self):\n        self.step_()\nclass Mine(Base):\n    def step_(self):\n        torch.save(1, 'x')\nMine().go()\n",
    "@registry.register\ndef made():\n    torch.save(1, 'x')\n",
    "def made():\n    torch.save(1, 'x')\nglobals()['ma' + 'de']()\n",
    "class Used:\n    def never(self):\n        torch.save(1, 'x')\ngetattr(Used(), input())()\n",
    "def outer():\n    def inner():\n        torch.save(1, 'x')\n    return inner\nouter()()\n",
    "DEBUG = False\ndef on():\n    global DEBUG\n    DEBUG = True\non()\nif DEBUG:\n    torch.save(1, 'x')\n",
    "if __name__ == '__main__':\n    torch.save(1, 'x')\n",
]


@pytest.mark.parametrize("text", REACHED)
def test_what_something_may_reach_stays(names, text):
    calls, _ = names({"train.py": TRAIN + text + "train()\n"})
    assert "torch.save" in calls


HELPER = "import torch\ndef used(): ...\ndef idle():\n    torch.save(1, 'x')\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("import helper\nglobals()[input()]()\nhelper.used()\n", False),
        ("import helper\nvars(helper)[input()]()\n", True),
        ("import helper\ngetattr(helper, input())()\n", True),
        ("import helper\nhelper.used()\nprint(getattr(model, input()))\n", False),
        ("from helper import used, idle\nglobals()[input()]()\n", True),
    ],
)
def test_a_look_up_in_one_module_finds_what_is_there(names, text, kept):
    calls, _ = names({"train.py": TRAIN + text + "train()\n", "helper.py": HELPER})
    assert ("torch.save" in calls) is kept


def test_an_imported_module_keeps_what_its_importer_reaches(names):
    helper = "def used():\n    import torch\n    torch.save(1, 'x')\ndef unused():\n    open('y')\n"
    block = "if __name__ == '__main__':\n    unused()\n"
    files = {"train.py": TRAIN + "from helper import used as f\nf()\ntrain()\n", "helper.py": helper + block}
    calls, defined = names(files)
    assert "torch.save" in calls
    assert defined == {"train", "used"}
    _, both = names(files, ("train.py", "helper.py"))
    assert both == {"train", "used", "unused"}


def test_a_training_behind_a_switch_stays_where_it_is_the_only_one(names):
    options = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--do_train', action='store_true')\n"
    calls, _ = names({"train.py": TRAIN + options + "if p.parse_args().do_train:\n    train()\n"})
    assert "torch.Tensor.backward" in calls


@pytest.mark.parametrize("decorator", ["hydra.main(version_base=None)", "draccus.wrap()"])
def test_the_start_of_an_imported_program_is_not_the_importers(names, decorator):
    start = f"import hydra, draccus, pyrallis\n@{decorator}\ndef start(cfg):\n    torch.save(1, 'x')\n    train()\n"
    files = {
        "fit.py": TRAIN
        + "def build():\n    return torch.nn.ReLU()\n"
        + start
        + "if __name__ == '__main__':\n    start()\n",
        "show.py": "import torch\nfrom fit import build\nprint(build()(torch.ones(3)))\n",
    }
    shown, defined = names(files, ("show.py",))
    assert "torch.save" not in shown and "build" in defined and "train" not in defined
    started, _ = names(files, ("fit.py",))
    assert "torch.save" in started
