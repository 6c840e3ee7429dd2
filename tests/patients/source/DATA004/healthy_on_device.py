"""The whole data set lives on the GPU: nothing is copied in the loop."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


device = torch.device("cuda")
data = TensorDataset(torch.randn(1000, 8, device=device), torch.randint(0, 2, (1000,), device=device))
train_loader = DataLoader(data, batch_size=32, shuffle=True)
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
