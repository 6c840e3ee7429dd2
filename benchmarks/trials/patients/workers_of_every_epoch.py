"""Short epochs whose workers start again with each of them."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Trainer:
    """A loop of one's own."""

    def __init__(self, model, data, epochs):
        self.model, self.epochs = model, epochs
        self.loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2)  # sick
        # well: self.loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.loss = nn.MSELoss()
        self.steps, self.began = 0, 0.0

    def step(self, batch):
        x, y = batch
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.steps += 1

    def fit(self):
        for epoch in range(self.epochs):
            if epoch == 5:
                self.began, self.steps = time.perf_counter(), 0
            for batch in self.loader:
                self.step(batch)
        return (time.perf_counter() - self.began) / self.steps


if __name__ == "__main__":
    data = TensorDataset(torch.randn(640, 256), torch.randn(640, 1))
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 512), nn.GELU(), nn.Linear(512, 1))
    print("step seconds", Trainer(model, data, epochs=40).fit())
