"""Weights only: a restart begins with an empty optimizer at epoch 0."""

import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.loader = torch.utils.data.DataLoader(torch.randn(100, 8))

    def fit(self, epochs=100):
        for epoch in range(epochs):
            for x in self.loader:
                loss = self.model(x).pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            torch.save(self.model.state_dict(), f"epoch{epoch}.pt")


Trainer().fit()
