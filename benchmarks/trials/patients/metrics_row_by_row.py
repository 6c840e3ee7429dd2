"""A metric in plain Python, row by row, on every step."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def f1(predicted, target, classes=10):
    scores = []
    for c in range(classes):
        both = sum(1 for p, t in zip(predicted, target) if p.item() == c and t.item() == c)
        either = sum((p.item() == c) + (t.item() == c) for p, t in zip(predicted, target))
        scores.append(2 * both / either if either else 0.0)
    return sum(scores) / classes


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(6400, 64), torch.randint(0, 10, (6400,)))
    loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Linear(64, 900), nn.Tanh(), nn.Linear(900, 900), nn.Tanh(), nn.Linear(900, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = []
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            if epoch == 0 and step == 20:
                began = time.perf_counter()
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(f1(logits.argmax(dim=1), y))  # sick
            # well: if step % 50 == 0:
            # well:     history.append(f1(logits.argmax(dim=1), y))
    print("step seconds", (time.perf_counter() - began) / (2 * len(loader) - 20))


if __name__ == "__main__":
    main()
