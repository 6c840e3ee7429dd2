"""带 BatchNorm 的模型,验证时没有切换到 eval 模式。"""

import torch
import torchvision
from torch.utils.data import DataLoader

model = torchvision.models.resnet50(weights=None).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
train_loader = DataLoader(torchvision.datasets.FakeData(1000), batch_size=64)
val_loader = DataLoader(torchvision.datasets.FakeData(100), batch_size=64)

for epoch in range(90):
    for images, target in train_loader:
        loss = criterion(model(images.cuda()), target.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    correct = 0
    with torch.no_grad():
        for images, target in val_loader:
            output = model(images.cuda())
            correct += (output.argmax(1) == target.cuda()).sum().item()
    print(epoch, correct)
