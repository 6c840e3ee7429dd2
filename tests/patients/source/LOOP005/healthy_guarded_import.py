"""A removed module, imported only where it exists."""

import math

import torch

try:
    from torch._six import inf
except ImportError:
    inf = math.inf

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = inf
for step in range(10):
    loss = model(torch.randn(4, 2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
