"""Copied line: both optimizers hold the generator."""

import torch
from torch import nn

netG = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8))
netD = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4)
optimizerD = torch.optim.Adam(netG.parameters(), lr=2e-4)
for real in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    optimizerD.zero_grad()
    loss_d = netD(netG(torch.randn(8, 8)).detach()).mean() - netD(real).mean()
    loss_d.backward()
    optimizerD.step()
    optimizerG.zero_grad()
    loss_g = -netD(netG(torch.randn(8, 8))).mean()
    loss_g.backward()
    optimizerG.step()
