"""The cosine schedule runs four times too fast."""

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = CosineAnnealingLR(optimizer, T_max=10_000)
loader = torch.utils.data.DataLoader(torch.randn(4000, 4))

for step, x in enumerate(loader):
    loss = model(x).pow(2).mean() / 4
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()
