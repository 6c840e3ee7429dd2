"""The networks of a program and their weights, counted from the source; the numbers are checked by hand."""

import pytest
from scripts import read_script

from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.networks import network

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


def test_one_class_with_several_sizes():
    found = built(UNET)
    double = lambda i, o: 9 * (i * o + o * o)  # noqa: E731
    assert found.parameters == double(3, 32) + double(32, 64) + 4 * 64 * 32
    assert found.convolutional and not found.library


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
