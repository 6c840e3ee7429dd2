"""A new loader, with new workers, for every epoch."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def make_loader(dataset, epoch):
    generator = torch.Generator().manual_seed(epoch)
    return DataLoader(dataset, batch_size=32, shuffle=True, generator=generator, num_workers=4)


class Rows(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return torch.full((8,), float(index)), index % 2


def main():
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(20):
        train_loader = make_loader(Rows(), epoch)
        for x, y in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


main()
