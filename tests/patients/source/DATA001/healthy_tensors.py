"""Tensors in memory: a worker would only add a copy."""

import torch
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(10000, 32)
y = torch.randint(0, 2, (10000,))
loader = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True)
model = torch.nn.Linear(32, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for features, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
