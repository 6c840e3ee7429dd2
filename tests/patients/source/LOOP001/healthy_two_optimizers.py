import torch

netG, netD = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4)
for real in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4):
    netD.zero_grad()
    fake = netG(torch.randn(4, 4))
    errD = netD(fake.detach()).mean() - netD(real).mean()
    errD.backward()
    optimizerD.step()
    netG.zero_grad()
    errG = -netD(fake).mean()
    errG.backward()
    optimizerG.step()
