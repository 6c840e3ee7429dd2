"""WGAN style: the generator's gradients are clipped before they exist."""

import torch
from torch import nn, optim

netG, netD = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g = optim.Adam(netG.parameters())
opt_d = optim.Adam(netD.parameters())
loader = torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=10)

for real in loader:
    opt_d.zero_grad()
    loss_d = netD(netG(torch.randn(10, 8)).detach()).mean() - netD(real).mean()
    loss_d.backward()
    nn.utils.clip_grad_norm_(netD.parameters(), 1.0)
    opt_d.step()

    opt_g.zero_grad()
    nn.utils.clip_grad_norm_(netG.parameters(), 1.0)
    loss_g = -netD(netG(torch.randn(10, 8))).mean()
    loss_g.backward()
    opt_g.step()
