import torch
from torch import nn

small = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
large = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(small.parameters(), lr=2e-4)
for x in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    optimizer.zero_grad()
    loss = large(x).pow(2).mean()
    loss.backward()
    optimizer.step()
