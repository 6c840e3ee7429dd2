"""设备写死成了 CPU。"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset



class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(x)


def main():
    device = torch.device("cpu")
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,))), batch_size=32)
    for epoch in range(10):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
