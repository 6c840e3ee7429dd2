"""Evaluates every epoch and never goes back to training mode."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.train_loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)
        self.val_loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)

    def train_epoch(self):
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hits = 0
        for x, y in self.val_loader:
            hits += (self.model(x).argmax(1) == y).sum().item()
        return hits

    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            self.train_epoch()
            print(epoch, self.evaluate())


Trainer().fit(20)
