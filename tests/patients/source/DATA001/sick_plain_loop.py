"""Photographs are opened and augmented by the training process itself."""

import os

import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms


class Photos(Dataset):
    def __init__(self, root, transform=None):
        self.paths = sorted(os.path.join(root, name) for name in os.listdir(root))
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        if self.transform is not None:
            image = self.transform(image)
        return image, index % 10


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
train_set = Photos("photos/train", augment)
train_loader = DataLoader(train_set, batch_size=64, shuffle=True, pin_memory=True)

model = models.resnet18(num_classes=10).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    for images, labels in train_loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
