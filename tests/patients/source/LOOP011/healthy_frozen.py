"""Frozen once, in eval mode, or under no_grad at the call."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)
student = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.Adam(student.parameters())
teacher = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.Linear(64, 2))
teacher.eval()
for p in teacher.parameters():
    p.requires_grad_(False)

for x, y in loader:
    loss = F.mse_loss(student(x), teacher(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

big_teacher = nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 2))
for x, y in loader:
    with torch.no_grad():
        target = big_teacher(x)
    # 直接 detach 也可以
    other = big_teacher(x).detach()
    loss = F.mse_loss(student(x), target + other)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
