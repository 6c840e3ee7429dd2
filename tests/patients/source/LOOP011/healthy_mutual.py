"""Mutual learning: both are trained. And a mean teacher, in training mode on purpose."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


def make():
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 2))


student, teacher = make(), make()
optimizer = torch.optim.Adam(list(student.parameters()) + list(teacher.parameters()))
for x, y in DataLoader([(torch.randn(8), 1)] * 64, batch_size=8):
    a, b = student(x), teacher(x)
    loss = F.cross_entropy(a, y) + F.cross_entropy(b, y) + F.mse_loss(a, b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
