"""The teacher and the average are in eval mode, and stay there; the attack needs gradients."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader

student = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
teacher = copy.deepcopy(student)
ema = copy.deepcopy(student)
optimizer = torch.optim.Adam(student.parameters())
loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)

for epoch in range(3):
    for x, y in loader:
        teacher.eval()
        with torch.no_grad():
            target = teacher(x)
        loss = nn.functional.mse_loss(student(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ema.eval()

student.eval()


def attack(model, test_loader):
    for x, y in test_loader:
        x.requires_grad = True
        loss = nn.functional.cross_entropy(model(x), y)
        grad = torch.autograd.grad(loss, x)[0]
        print((model(x + 0.1 * grad.sign()).argmax(1) == y).float().mean())


attack(student, loader)
