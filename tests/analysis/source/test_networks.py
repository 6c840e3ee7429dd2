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


def test_a_download_of_weights_is_not_a_network():
    found = built(
        "from torchvision.models.utils import load_state_dict_from_url\n"
        "model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2))\n"
        "model.load_state_dict(load_state_dict_from_url('https://example.org/w.pth'))\n"
    )
    assert not found.library
