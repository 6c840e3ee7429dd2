"""Summed over tokens and normalised once; the schedule counts micro-batches."""

import torch
import torch.nn.functional as F

accum, epochs = 4, 3
model = torch.nn.Linear(4, 7)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader([(torch.randn(4), 1)] * 64, batch_size=8)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=len(loader) * epochs)
for i, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    if (i + 1) % accum == 0:
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()
