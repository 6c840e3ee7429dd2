import torch
import torch.nn as nn
import torch.nn.functional as F

student = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
ema_teacher = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
ema_teacher.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    loss = F.mse_loss(student(x), ema_teacher(x + 0.1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(ema_teacher.parameters(), student.parameters()):
            a.mul_(0.99).add_(b, alpha=0.01)
