"""The device is an option whose default is the CPU."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
model = nn.Linear(8, 2).to(args.device)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,))), batch_size=32)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.to(args.device)), y.to(args.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
