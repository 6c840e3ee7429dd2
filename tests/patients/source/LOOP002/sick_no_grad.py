"""Validation keeps a graph for each batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.Linear(32, 2))

    def forward(self, x):
        return self.fc(x)


def validate(model, loader, criterion, device):
    model.eval()
    total = 0.0
    for x, y in loader:
        out = model(x.to(device))
        total += criterion(out, y.to(device)).item()
    return total / len(loader)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss()
    train_loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)
    val_loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)
    for epoch in range(10):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        print(epoch, validate(model, val_loader, criterion, device))


if __name__ == "__main__":
    main()
