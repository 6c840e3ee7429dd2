"""Everything is made on the GPU by default."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


torch.set_default_device("cuda")
model = nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = nn.functional.cross_entropy(model(torch.randn(32, 8)), torch.randint(0, 2, (32,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
