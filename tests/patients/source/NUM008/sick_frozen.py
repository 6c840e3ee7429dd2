"""Everything is frozen, and nothing new is added."""

import torch
import torchvision

model = torchvision.models.resnet18(weights="DEFAULT")
for p in model.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for images, target in torch.utils.data.DataLoader(torchvision.datasets.FakeData(100)):
    loss = torch.nn.functional.cross_entropy(model(images), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
