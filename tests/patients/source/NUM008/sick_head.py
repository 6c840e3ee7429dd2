"""Fine-tuning: the new head is put in after the optimizer was built."""

import torch
import torchvision
from torch import nn


def main():
    model = torchvision.models.resnet18(weights="DEFAULT")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model.fc = nn.Linear(model.fc.in_features, 10)
    model = model.cuda()
    criterion = nn.CrossEntropyLoss()
    loader = torch.utils.data.DataLoader(torchvision.datasets.FakeData(100), batch_size=10)
    for images, target in loader:
        loss = criterion(model(images.cuda()), target.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
