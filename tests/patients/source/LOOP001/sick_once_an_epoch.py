"""梯度只在每个 epoch 开始时清零."""
import torch
from torch import nn


def train_epoch(model, loader, criterion, optimizer, scaler, device):
    model.train()
    optimizer.zero_grad()  # 清零
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        with torch.autocast(device_type="cuda"):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main():
    model = nn.Linear(8, 3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.utils.data.TensorDataset(torch.randn(100, 8), torch.randint(0, 3, (100,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    for epoch in range(10):
        train_epoch(model, loader, nn.CrossEntropyLoss(), optimizer, torch.amp.GradScaler(), "cuda")


if __name__ == "__main__":
    main()
