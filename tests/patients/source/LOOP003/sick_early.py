"""The scheduler steps first (每个 epoch 开始时)."""

import torch
from torch.optim import lr_scheduler


def train_epoch(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def main():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    loader = torch.utils.data.DataLoader([(torch.randn(4), 1)] * 64, batch_size=8)
    for epoch in range(90):
        scheduler.step()
        train_epoch(model, loader, optimizer)
        print("epoch", epoch, scheduler.get_last_lr())


main()
