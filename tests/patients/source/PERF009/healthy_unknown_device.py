"""The device comes from a file that only a run reads."""

import json

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


settings = json.load(open("settings.json"))
device = settings["device"]
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,))), batch_size=32)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
