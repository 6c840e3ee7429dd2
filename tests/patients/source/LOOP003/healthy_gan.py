"""The generator trains every fifth step: no accumulation."""

import torch
from torch import nn

netG, netD = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g = torch.optim.RMSprop(netG.parameters())
opt_d = torch.optim.RMSprop(netD.parameters())
n_critic = 5
for i, real in enumerate(torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=10)):
    opt_d.zero_grad()
    loss_d = netD(netG(torch.randn(10, 8)).detach()).mean() - netD(real).mean()
    loss_d.backward()
    opt_d.step()
    if i % n_critic == 0:
        opt_g.zero_grad()
        loss_g = -netD(netG(torch.randn(10, 8))).mean()
        loss_g.backward()
        opt_g.step()
