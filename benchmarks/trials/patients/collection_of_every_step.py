"""Garbage collected by hand on every step, against an out of memory that was long ago."""

import gc
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_one_epoch(model, loader, optimizer, device):
    losses = 0.0
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses += loss.detach()
        del images, target, loss
        gc.collect()  # sick
    # well: gc.collect()
    return losses / len(loader)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 24 * 24, 10),
    ).to(device)
    data = TensorDataset(torch.randn(2560, 1, 28, 28), torch.randint(0, 10, (2560,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(6):
        if epoch == 1:
            began = time.perf_counter()
        print(epoch, float(train_one_epoch(model, loader, optimizer, device)))
    print("step seconds", (time.perf_counter() - began) / (5 * len(loader)))


if __name__ == "__main__":
    main()
