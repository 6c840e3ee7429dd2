"""The networks of a program and their weights, counted from the source; the numbers are checked by hand."""

import pytest
from scripts import read_script

from gpudoctor.model.reading.networks import network
from gpudoctor.model.reading.programs import training_programs

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
