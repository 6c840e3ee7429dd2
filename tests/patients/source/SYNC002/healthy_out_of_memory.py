"""In the handler of an out-of-memory error."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,))), pin_memory=True)
for x, y in loader:
    try:
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
    except torch.cuda.OutOfMemoryError:
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        continue
    optimizer.step()
    optimizer.zero_grad()
