"""Model and optimizer saved on every step."""

import os
import time

import torch
from torch import nn


def batches(count, size):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        x = torch.randn(size, 256, generator=generator)
        yield x, (x.sum(dim=1) > 0).long()


def save(model, optimizer, step, path):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def train(steps=500, size=128):
    os.makedirs("checkpoints", exist_ok=True)
    model = nn.Sequential(nn.Linear(256, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    criterion = nn.CrossEntropyLoss()
    for step, (inputs, targets) in enumerate(batches(steps, size)):
        if step == 20:
            began = time.perf_counter()
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        save(model, optimizer, step, "checkpoints/last.pt")  # sick
        # well: if step % 500 == 0:
        # well:     save(model, optimizer, step, "checkpoints/last.pt")
    # well: save(model, optimizer, step, "checkpoints/last.pt")
    print("step seconds", (time.perf_counter() - began) / (steps - 20))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train()
