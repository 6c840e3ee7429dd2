"""A program that trains a small model, as text: what it records of itself is read by a test."""

PLAIN = """
import gpudoctor, sys, torch
from torch.utils.data import DataLoader, TensorDataset

def train(steps=40, fail=None):
    data = TensorDataset(torch.randn(8 * steps, 4), torch.randn(8 * steps, 1))
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(DataLoader(data, batch_size=8)):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == fail:
            raise ValueError("a bad batch")
    return loss.item()
"""
