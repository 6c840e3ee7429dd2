"""Accelerate chooses the device."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


from accelerate import Accelerator

accelerator = Accelerator()
model = nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,))), batch_size=32)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
