"""The networks of a program and their weights, counted from the source; the numbers are checked by hand."""

import pytest
from scripts import read_script

from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.networks import network
from gpudoctor.vitals.source import read_source

LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(torch.load("d.pt"), batch_size=8):
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def built(text):
    [program] = training_programs(read_script("import torch\nfrom torch import nn\n" + text + LOOP))
    found = network(program)
    assert found is not None
    return found


RESNET = """
class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inner, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, planes, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)


class ResNet(nn.Module):
    def __init__(self, block, num_blocks):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, kernel_size=3, bias=False)
        self.layer1 = self._make_layer(block, 64, 128, num_blocks[0])
        self.layer2 = self._make_layer(block, 128, 256, num_blocks[1])
        self.head = nn.Linear(256, 10)

    def _make_layer(self, block, inner, planes, number):
        return nn.Sequential(block(inner, planes), *[block(planes, planes) for _ in range(number - 1)])


def small():
    return ResNet(BasicBlock, [2, 3])


model = small().cuda()
"""

UNET = """
class Double(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(i, o, 3), nn.ReLU(), nn.Conv2d(o, o, 3))


class Unet(nn.Module):
    def __init__(self, base=16):
        super().__init__()
        self.width = base
        self.a = Double(3, base)
        self.b = Double(base, base * 2)
        self.up = nn.ConvTranspose2d(self.width * 2, self.width, 2)


model = Unet(base=32).cuda()
"""


def test_helpers_and_classes_handed_over():
    block = lambda i, o: 9 * (i * o + o * o)  # noqa: E731
    first = block(64, 128) + block(128, 128)
    second = block(128, 256) + 2 * block(256, 256)
    assert built(RESNET).parameters == 9 * 3 * 64 + first + second + 256 * 10


def test_one_class_with_several_sizes():
    found = built(UNET)
    double = lambda i, o: 9 * (i * o + o * o)  # noqa: E731
    assert found.parameters == double(3, 32) + double(32, 64) + 4 * 64 * 32
    assert found.convolutional and not found.library


def test_encoder_stack_and_embedding():
    found = built(
        "layer = nn.TransformerEncoderLayer(d_model=256, nhead=4, dim_feedforward=1024)\n"
        "model = nn.Sequential(nn.Embedding(30000, 256), nn.TransformerEncoder(layer, num_layers=6)).cuda()\n"
    )
    assert found.parameters == 6 * (4 * 256 * 256 + 2 * 256 * 1024)
    assert found.attentive


@pytest.mark.parametrize(
    ("text", "library", "tiny"),
    [
        ("import torchvision\nmodel = torchvision.models.resnet18().cuda()\n", True, False),
        ("import timm\nmodel = timm.create_model('tiny_vit_5m_224').cuda()\n", True, True),
        ("model = nn.Linear(10, 10).cuda()\n", False, False),
    ],
)
def test_libraries(text, library, tiny):
    found = built(text)
    assert (found.library, found.tiny) == (library, tiny)


def test_a_network_that_builds_itself_ends():
    text = """
class Tree(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.own = nn.Linear(8, 8)
        self.left = Tree(depth - 1)
        self.right = Tree(depth - 1)


model = Tree(40).cuda()
"""
    assert built(text).parameters >= 64


MLP = """
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(5000, 5000)


class Narrow(nn.Module):
    def __init__(self, head=None):
        super().__init__()
        self.map = nn.Linear(2000, 1000)
        self.head = head


"""


def test_the_network_is_the_one_that_the_optimizer_gets_and_the_step_calls():
    found = built(MLP + "other = Wide()\nmodel = Narrow().cuda()\nmodel = nn.DataParallel(model)\n")
    assert (found.name, found.parameters, found.certain) == ("Narrow", 2_000_000, True)
    assert found.size_text == "Narrow (at least 2 M weights)"


def test_networks_handed_to_a_constructor_are_parts_of_it():
    found = built(MLP + "head = Wide()\nmodel = Narrow(head).cuda()\n")
    assert (found.name, found.parameters) == ("Narrow", 27_000_000)


def test_which_of_several_networks_trains_is_not_told():
    text = MLP + "made = {'wide': Wide(), 'narrow': Narrow()}\nmodel = made[input()].cuda()\n"
    found = built(text)
    assert not found.certain and found.size_text == "The network"


def test_a_library_network_that_only_listens_is_not_in_training():
    text = """
import torchvision
def get_judge(kind):
    judge = torchvision.models.resnet50()
    return judge


"""
    step = "judge = get_judge('a')\nmodel = Narrow().cuda()\n"
    assert built(text + MLP + step).name == "Narrow"
    assert built(text + MLP + "net = get_judge('a')\nmodel = net.cuda()\n").library
    weights = """
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(2000, 1000)

    @classmethod
    def copied(cls):
        theirs = torchvision.models.resnet50()
        return cls()


model = Own.copied().cuda()
"""
    assert not built("import torchvision\n" + weights).library


@pytest.mark.parametrize(("maker", "library"), [("print(Pair)", False), ("model.pair = Pair()", True)])
def test_a_library_network_in_a_class_that_nothing_builds_is_not_in_training(maker, library):
    text = """
import torchvision
class Eye(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torchvision.models.resnet50()
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye = Eye()
model = torch.load("m.pt")
"""
    [program] = training_programs(read_script("import torch\nfrom torch import nn\n" + text + maker + LOOP))
    found = network(program)
    assert (found is not None and found.library) is library


STAGES = """
class Stage(nn.Module):
    def __init__(self, number, inner, outer):
        super().__init__()
        parts = []
        for place in range(number):
            if place == 0:
                taken = inner
            else:
                taken = outer
            {line}
            parts.append(nn.Conv2d(taken, outer, 1, bias=False))
        self.parts = nn.Sequential(*parts)


model = Stage(3, 100, 1000).cuda()
"""


@pytest.mark.parametrize(("line", "weights"), [("pass", 300_000), ("taken = place", 0), ("taken = taken // 2", 0)])
def test_a_size_that_branches_set_is_the_least_of_them(line, weights):
    assert built(STAGES.format(line=line)).parameters == weights


BRANCHES = """
class Net(nn.Module):
    def __init__(self, depth, size=1):
        super().__init__()
        if depth == 1:
            self.body = nn.Linear(1000, 1000)
        elif depth == 2:
            self.body = nn.Linear(2000, 1000)
        else:
            self.body = nn.Linear(3000, 1000)
        if size > depth:
            self.more = nn.Linear(9000, 9000)


"""


@pytest.mark.parametrize(("given", "weights"), [("2", 2), ("7", 3), ("int(input())", 1)])
def test_of_exclusive_branches_one_runs(given, weights):
    assert built(BRANCHES + f"model = Net({given}).cuda()\n").parameters == weights * 1_000_000


def test_a_kernel_with_two_sides():
    text = "model = nn.Conv2d(64, 128, (5, 1)).cuda()\n"
    assert built(text).parameters == 64 * 128 * 5


def test_classes_of_one_name_in_two_files(tmp_path):
    part = """
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(1000, {})
class {}(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
"""
    (tmp_path / "small.py").write_text(part.format(1000, "Small"))
    (tmp_path / "large.py").write_text(part.format(9000, "Large"))
    head = "import torch\nfrom torch import nn\nfrom small import Small\nfrom large import Large\n"
    (tmp_path / "main.py").write_text(head + "old = Large()\nmodel = Small().cuda()\n" + LOOP)
    [program] = training_programs(read_source([tmp_path / "main.py"]))
    found = network(program)
    assert found is not None and (found.name, found.parameters) == ("Small", 2_000_000)


TOWER = """
from torch import nn
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(1000, {})
"""
CHOICE = """
import argparse
import torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--size", default="{default}")
args = parser.parse_args()
if args.size == "small":
    from small import Tower
    model = Tower().cuda()
else:
    from large import Tower
    model = Tower().cuda()
"""


@pytest.mark.parametrize(("default", "weights"), [("small", 1_000_000), ("large", 9_000_000)])
def test_classes_of_one_name_that_branches_import(tmp_path, default, weights):
    (tmp_path / "small.py").write_text(TOWER.format(1000))
    (tmp_path / "large.py").write_text(TOWER.format(9000))
    (tmp_path / "main.py").write_text(CHOICE.format(default=default) + LOOP)
    [program] = training_programs(read_source([tmp_path / "main.py"]))
    found = network(program)
    assert found is not None and (found.name, found.parameters) == ("Tower", weights)


COMMANDS = """
import torchvision


def score(path):
    model = torchvision.models.vit_h_14().cuda()
    model.load_state_dict(torch.load(path))
    print(model.eval())


def fit(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader(torch.load("d.pt"), batch_size=8):
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def learn():
    {body}


{{"score": score, "learn": learn}}[input()]()
"""


@pytest.mark.parametrize(
    "body",
    [
        "model = torchvision.models.resnet18().cuda()\n    fit(model)",
        "small = torchvision.models.resnet18()\n    model = small.cuda()\n    fit(net=model)",
        "fit(torchvision.models.resnet18().cuda())",
    ],
)
def test_a_network_of_another_function_that_has_the_same_name_does_not_train(body):
    [program] = training_programs(read_script("import torch\nfrom torch import nn\n" + COMMANDS.format(body=body)))
    found = network(program)
    assert found is not None and found.name == "torchvision.models.resnet18"


HEADED = """
class Tower(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.body = nn.Linear(100, 100, bias=False)
        self.top = nn.Sequential(nn.Linear(100, 1000, bias=False), nn.ReLU(), nn.Linear(1000, width, bias=False))


def tower():
    net = Tower()
    {line}
    return net


model = tower().cuda()
"""


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("net.bottom = None", 120_000),
        ("del net.top", 10_000),
        ("net.top = nn.Identity()", 10_000),
        ("top = None", 120_000),
    ],
)
def test_what_is_taken_out_of_a_network_is_not_counted(line, weights):
    assert built(HEADED.format(line=line)).parameters == weights


def test_a_download_of_weights_is_not_a_network():
    found = built(
        "from torchvision.models.utils import load_state_dict_from_url\n"
        "model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2))\n"
        "model.load_state_dict(load_state_dict_from_url('https://example.org/w.pth'))\n"
    )
    assert not found.library
