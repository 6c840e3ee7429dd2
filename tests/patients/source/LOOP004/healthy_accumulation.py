"""Clips, steps and clears at the head of the pass, on the gradients of the pass before."""

import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=10)
scaler = torch.amp.GradScaler("cuda")

for step, batch in enumerate(loader):
    loss = model(batch).pow(2).mean() / 4
    scaler.scale(loss).backward()
    if (step + 1) % 4 != 0:
        continue
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
