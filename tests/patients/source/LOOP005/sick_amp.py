"""The CUDA-only names of automatic mixed precision."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,))), pin_memory=True)
for x, y in loader:
    optimizer.zero_grad()
    with torch.cuda.amp.autocast(enabled=True):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
