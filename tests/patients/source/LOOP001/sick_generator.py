"""The generator's optimizer is never cleared, only the critic's."""
import torch

generator, critic = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
opt_d = torch.optim.Adam(critic.parameters(), lr=2e-4)
for real in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4):
    noise = torch.randn(4, 4)
    opt_d.zero_grad()
    d_loss = critic(generator(noise).detach()).mean() - critic(real).mean()
    d_loss.backward()
    opt_d.step()
    g_loss = -critic(generator(noise)).mean()
    g_loss.backward()
    opt_g.step()
