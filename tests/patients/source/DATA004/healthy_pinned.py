"""Pinned and asynchronous."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
train_loader = DataLoader(data, batch_size=32, num_workers=4, pin_memory=True)
# sick_unpinned: train_loader = DataLoader(data, batch_size=32, num_workers=4)
# sick_pageable_non_blocking: train_loader = DataLoader(data, batch_size=32, num_workers=4, pin_memory=False)
# healthy_cpu: train_loader = DataLoader(data, batch_size=32, num_workers=4)
# healthy_conditional_pin: train_loader = DataLoader(data, batch_size=32, num_workers=4, pin_memory=torch.cuda.is_available())
device = "cuda"
# sick_pageable_non_blocking: device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# healthy_cpu: device = "cpu"
# healthy_conditional_pin: device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for x, y in train_loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        # sick_unpinned: x, y = x.to(device), y.to(device)
        # sick_blocking_copy: x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
