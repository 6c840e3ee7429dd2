"""Clears on each micro-batch what it wants to accumulate."""

import torch


def train(model, loader, optimizer, accum_steps=4):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y) / accum_steps
        loss.backward()
        if (i + 1) % accum_steps == 0:
            optimizer.step()


model = torch.nn.Linear(4, 1)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
train(model, torch.utils.data.DataLoader(data), torch.optim.SGD(model.parameters(), lr=0.01))
