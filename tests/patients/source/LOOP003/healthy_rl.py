"""Learns every 4 environment steps; the schedule follows the epochs."""

import torch

policy = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
memory = []
for episode in range(100):
    for t in range(1000):
        action = policy(torch.randn(4)).argmax()
        memory.append((torch.randn(4), action))
        if t % 4 == 0:
            loss = policy(torch.stack([m[0] for m in memory[-32:]])).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    scheduler.step()
