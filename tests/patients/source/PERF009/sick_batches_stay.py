"""The model goes to the GPU and the batches do not."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


model = nn.Linear(8, 2).to("cuda")
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,))), batch_size=32)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
