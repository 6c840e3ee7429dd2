"""Divided in three ways; cleared and scheduled with the step."""

import torch
import torch.nn.functional as F

accum = 4
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
loader = torch.utils.data.DataLoader([(torch.randn(4), 1)] * 64, batch_size=8)


def loss_of(x, y):
    return F.cross_entropy(model(x), y) / accum


for i, (x, y) in enumerate(loader):
    loss = loss_of(x, y)
    loss.backward()
    if (i + 1) % accum == 0 or (i + 1) == len(loader):
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

for i, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x), y)
    loss /= accum
    loss.backward()
    if (i + 1) % accum == 0:
        optimizer.step()
        optimizer.zero_grad()

# 对梯度本身做平均
for i, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    if (i + 1) % accum == 0:
        for p in model.parameters():
            p.grad /= accum
        optimizer.step()
        optimizer.zero_grad()
