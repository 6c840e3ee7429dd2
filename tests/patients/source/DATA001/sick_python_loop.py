"""A synthetic pipeline whose items are made by a loop in Python."""

import torch
from torch.utils.data import DataLoader, Dataset


class Simulated(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return self._simulate(index)

    def _simulate(self, index):
        x = torch.zeros(3, 64, 64)
        for _ in range(200):
            x = torch.sin(x + index)
        return x, index % 10


def main():
    data = Simulated()
    loader = DataLoader(data, batch_size=32)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()


main()
