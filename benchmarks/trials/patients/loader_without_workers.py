"""A data set that decodes each item in Python, and a loader without workers."""

import argparse
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Rows that cost some work each, as a picture does that is decoded and cropped."""

    def __init__(self, count):
        self.rows = torch.randn(count, 3 * 16 * 16)
        self.labels = torch.randint(0, 10, (count,))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        shift = index
        for _ in range(1500):
            shift = (shift * 1103515245 + 12345) % 2147483648
        return self.rows[index].roll(shift % 7), self.labels[index]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(768, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loader = DataLoader(Pictures(3200), batch_size=64, shuffle=True)  # sick
    # well: workers = min(8, len(os.sched_getaffinity(0)))
    # well: loader = DataLoader(Pictures(3200), batch_size=64, shuffle=True, num_workers=workers,
    # well:                     persistent_workers=True)
    began, step = time.perf_counter(), 0
    for epoch in range(args.epochs):
        for x, y in loader:
            if step == 50:
                began = time.perf_counter()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
    print("step seconds", (time.perf_counter() - began) / (step - 50))


if __name__ == "__main__":
    main()
