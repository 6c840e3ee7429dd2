"""worker 比 CPU 多。"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
train_loader = DataLoader(data, batch_size=32, num_workers=64, pin_memory=True, persistent_workers=True)
# healthy_fitting: train_loader = DataLoader(data, batch_size=32, num_workers=8, prefetch_factor=4, pin_memory=True, persistent_workers=True)
# healthy_no_workers: train_loader = DataLoader(data, batch_size=32, shuffle=True)
device = "cuda"
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
# healthy_fitting: for epoch in range(100):
# healthy_no_workers: for epoch in range(100):
    for x, y in train_loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
