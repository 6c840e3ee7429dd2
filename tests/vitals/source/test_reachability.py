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
    "if False:\n    torch.save(1, 'x')\n",
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
    "import lightning\nclass Mine(lightning.Callback):\n    def on_fit_end(self):\n        torch.save(1, 'x')\nMine()\n",
    "@registry.register\ndef made():\n    torch.save(1, 'x')\n",
    "def made():\n    torch.save(1, 'x')\nglobals()['ma' + 'de']()\n",
    "class Used:\n    def never(self):\n        torch.save(1, 'x')\ngetattr(Used(), input())()\n",
    "def made():\n    torch.save(1, 'x')\nmade\nready = made\nready()\n",
    "def outer():\n    def inner():\n        torch.save(1, 'x')\n    return inner\nouter()()\n",
    "DEBUG = False\ndef on():\n    global DEBUG\n    DEBUG = True\non()\nif DEBUG:\n    torch.save(1, 'x')\n",
    "SAVE = None\nif SAVE is None:\n    torch.save(1, 'x')\n",
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
        ("import helper\nprint(vars(options))\nhelper.used()\n", False),
        ("import helper\nvars(helper)[input()]()\n", True),
        ("from helper import used\nprint(eval('options.' + input()))\nused()\n", False),
        ("import helper\ngetattr(helper, input())()\n", True),
        ("import helper\nhelper.used()\nprint(getattr(model, input()))\n", False),
        ("from helper import used, idle\nglobals()[input()]()\n", True),
    ],
)
def test_a_look_up_in_one_module_finds_what_is_there(names, text, kept):
    calls, _ = names({"train.py": TRAIN + text + "train()\n", "helper.py": HELPER})
    assert ("torch.save" in calls) is kept


@pytest.mark.parametrize("ask", ["getattr(Mine(), input())()", "print(getattr(options, input())); Mine()"])
def test_a_look_up_in_an_object_may_find_any_method_of_what_is_used(names, ask):
    text = "class Mine:\n    def go(self): ...\nclass Other:\n    def idle(self): ...\n"
    _, defined = names({"train.py": TRAIN + text + f"{ask}\ntrain()\n"})
    assert "go" in defined and not {"Other", "idle"} & defined


def test_a_module_without_an_entry_keeps_everything(names):
    _, defined = names({"train.py": TRAIN + "def other(): ...\n"})
    assert defined == {"train", "other"}


def test_an_imported_module_keeps_what_its_importer_reaches(names):
    helper = "def used():\n    import torch\n    torch.save(1, 'x')\ndef unused():\n    open('y')\n"
    block = "if __name__ == '__main__':\n    unused()\n"
    files = {"train.py": TRAIN + "from helper import used as f\nf()\ntrain()\n", "helper.py": helper + block}
    calls, defined = names(files)
    assert "torch.save" in calls
    assert defined == {"train", "used"}
    _, both = names(files, ("train.py", "helper.py"))
    assert both == {"train", "used", "unused"}


def test_a_name_that_is_only_imported_and_shown_is_not_called(names):
    files = {
        "train.py": "from help import *\nfrom help import fix, seed\n" + TRAIN + "fix\nseed()\ntrain()\n",
        "help.py": "import torch\ndef fix():\n    torch.load('x')\ndef seed():\n    torch.save(1, 'x')\n",
    }
    calls, _ = names(files)
    assert "torch.save" in calls
    assert "torch.load" not in calls


def test_a_program_that_does_not_train_keeps_everything(names):
    _, defined = names({"train.py": "import torch\ndef a(): ...\ndef b(): ...\na()\n"})
    assert defined == {"a", "b"}


def test_a_training_behind_a_switch_stays_where_it_is_the_only_one(names):
    options = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--do_train', action='store_true')\n"
    calls, _ = names({"train.py": TRAIN + options + "if p.parse_args().do_train:\n    train()\n"})
    assert "torch.Tensor.backward" in calls


SIGNALS = "import torch\ndef spectrum(x):\n    return torch.rfft(x, 2)\ndef blur(x):\n    return torch.save(x, 'x')\n"


@pytest.mark.parametrize("start", ["print(blur(3))\n", "if __name__ == '__main__':\n    y = blur(3)\n"])
def test_an_evaluation_loses_what_its_modules_do_not_need(names, start):
    files = {"measure.py": "from signals import blur\ndef mine(): ...\n" + start, "signals.py": SIGNALS}
    calls, defined = names(files, ("measure.py",))
    assert "torch.rfft" not in calls
    assert "torch.save" in calls
    assert defined == {"mine", "blur"}


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


def test_a_module_that_starts_nothing_is_kept_whole_and_its_imports_lose_what_it_does_not_need(names):
    files = {"parts.py": "from signals import blur\nclass A:\n    def b(self): blur()\n", "signals.py": SIGNALS}
    calls, defined = names(files, ("parts.py",))
    assert "torch.rfft" not in calls
    assert "torch.save" in calls
    assert defined == {"A", "b", "blur"}


WAVES = "import torch\ndef rfft(x):\n    return torch.save(x, 'x')\ndef shape(x):\n    return x\n"
OTHER_WAVES = "import torch\ndef shape(x):\n    torch.save(x, 'x')\ndef go(x):\n    return x\n"


@pytest.mark.parametrize(
    ("files", "start", "kept"),
    [
        ({"waves.py": WAVES}, "from waves import shape\nprint(shape(torch.fft.rfft(3)))\n", False),
        ({"waves.py": WAVES}, "import waves\nprint(waves.rfft(3))\n", True),
        ({"waves.py": OTHER_WAVES}, "import waves\nprint(waves.shape(3))\n", True),
        ({"waves.py": OTHER_WAVES.replace("return x", "return shape(x)")}, "import waves\nprint(waves.go(3))\n", True),
    ],
)
def test_a_name_of_a_library_or_of_another_module_reaches_nothing(names, files, start, kept):
    calls, _ = names({"measure.py": "import torch\n" + start, **files}, ("measure.py",))
    assert ("torch.save" in calls) is kept


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from . import tools", "tools.keep(3)"),
        ("from .tools import keep", "keep(3)"),
        ("import pack.tools", "pack.tools.keep(3)"),
        ("from pack import tools", "tools.keep(3)"),
        ("from .deep import inner", "inner.tools.keep(3)"),
        ("from pack import deep", "deep.inner.tools.keep(3)"),
    ],
)
@pytest.mark.parametrize("folder", ["", "src/"])
def test_modules_of_the_program_are_no_libraries(names, folder, line, call):
    files = {
        "start.py": "import pack.main\npack.main.go()\n",
        "pack/__init__.py": "",
        "pack/main.py": f"{line}\ndef go():\n    return {call}\n",
        "pack/tools.py": "import torch\ndef keep(x):\n    torch.save(x, 'x')\ndef lose(x):\n    torch.load(x)\n",
        "pack/deep/__init__.py": "from . import inner\n",
        "pack/deep/inner.py": "from .. import tools\n",
    }
    calls, _ = names({folder + name: text for name, text in files.items()}, (folder + "start.py",))
    if "torch.save" not in calls and "torch.load" not in calls:
        pytest.skip("the reader finds no such module")
    assert "torch.save" in calls


def test_a_method_found_by_its_name_keeps_methods_only(names):
    text = (
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return getattr(self, f'go_{len(x)}')(x)\n"
        "    def go_3(self, x):\n        return torch.save(x, 'x')\ndef idle():\n    torch.load('x')\nNet()\ntrain()\n"
    )
    calls, _ = names({"train.py": TRAIN + text})
    assert "torch.save" in calls
    assert "torch.load" not in calls
