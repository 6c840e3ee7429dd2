"""A classifier whose forward ends in softmax, trained with CrossEntropyLoss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 32, 3)
        self.fc = nn.Linear(32 * 13 * 13, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = self.fc(torch.flatten(x, 1))
        return F.softmax(x, dim=1)


def train(model, device, loader, optimizer, criterion):
    model.train()
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = datasets.MNIST("data", transform=transforms.ToTensor(), download=True)
    model = Net().to(device)
    optimizer = optim.Adam(model.parameters())
    for _ in range(5):
        train(model, device, DataLoader(data, batch_size=64, shuffle=True), optimizer, nn.CrossEntropyLoss())


if __name__ == "__main__":
    main()
