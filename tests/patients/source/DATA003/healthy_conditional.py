"""Arguments that need workers are given only with workers."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
train_loader = DataLoader(
    data,
    batch_size=32,
    num_workers=args.workers,
    prefetch_factor=4 if args.workers > 0 else None,
    persistent_workers=args.workers > 0,
)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(50):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
