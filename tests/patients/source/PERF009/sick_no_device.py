"""Nothing in here names a device."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


# sick_chosen_never_used + device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# sick_chosen_never_used + print("training on", device)
# healthy_default_device + torch.set_default_device("cuda")
data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
loader = DataLoader(data, batch_size=32)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
