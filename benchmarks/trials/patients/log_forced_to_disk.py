"""A log that is flushed and synced to the disk on every step."""

import csv
import os
import time

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.Adam(model.parameters())
    os.makedirs("logs", exist_ok=True)
    with open("logs/metrics.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "loss", "norm"])
        for step in range(800):
            if step == 20:
                began = time.perf_counter()
            x = torch.randn(64, 128)
            loss = (model(x).squeeze(1) - x.mean(dim=1)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            writer.writerow([step, float(loss), float(norm)])
            file.flush()  # sick
            os.fsync(file.fileno())  # sick
    print("step seconds", (time.perf_counter() - began) / 780)


if __name__ == "__main__":
    main()
