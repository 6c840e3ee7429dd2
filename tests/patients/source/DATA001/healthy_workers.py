"""Real work, and workers for it; the evaluation loader has none and runs once."""

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms

tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
train_loader = DataLoader(torchvision.datasets.ImageFolder("train", tf), batch_size=64, shuffle=True,
                          num_workers=8, pin_memory=True, persistent_workers=True)
test_loader = DataLoader(torchvision.datasets.ImageFolder("test", transforms.ToTensor()), batch_size=64)
device = torch.device("cuda")
model = torchvision.models.resnet18().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
model.eval()
correct = torch.zeros((), device=device)
with torch.no_grad():
    for x, y in test_loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
print(correct.item())
