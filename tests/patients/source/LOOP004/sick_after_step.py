"""Clips when the step has already been made."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, epochs=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)


if __name__ == "__main__":
    data = TensorDataset(torch.randn(512, 16), torch.randint(0, 4, (512,)))
    train(nn.Linear(16, 4), DataLoader(data, batch_size=32, shuffle=True))
