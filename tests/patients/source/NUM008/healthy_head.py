"""Frozen but for the new head; a new group; an optimizer that is built again; a fold a pass."""

import torch
import torchvision
from torch import nn

model = torchvision.models.resnet18(weights="DEFAULT")
for p in model.parameters():
    p.requires_grad = False
model.fc = nn.Linear(512, 10)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def run(net, opt):
    for images, target in torch.utils.data.DataLoader(torchvision.datasets.FakeData(100)):
        loss = nn.functional.cross_entropy(net(images), target)
        opt.zero_grad()
        loss.backward()
        opt.step()


run(model, optimizer)

for fold in range(5):
    net = torchvision.models.resnet18()
    opt = torch.optim.Adam(net.parameters())
    run(net, opt)
    net = torchvision.models.resnet34()  # 重新建立优化器
    opt = torch.optim.Adam(net.parameters())
    run(net, opt)
    net = torchvision.models.resnet18()
