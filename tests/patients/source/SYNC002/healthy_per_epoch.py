"""Once an epoch."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


device = torch.device("cuda")
data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
loader = DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
model = nn.Linear(8, 2).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    running = 0.0
    correct = 0
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
    torch.cuda.empty_cache()
        # sick_short_period: if step % 50 == 0:
            # sick_short_period + torch.cuda.empty_cache()
        # sick_every_step: torch.cuda.empty_cache()
        # healthy_long_period: if step % 1000 == 0:
            # healthy_long_period + torch.cuda.empty_cache()
