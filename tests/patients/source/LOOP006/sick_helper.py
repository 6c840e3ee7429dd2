"""The loss stands in a helper; the model returns a pair."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.head = nn.Linear(16, 3)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        hidden = self.encoder(x)
        out = self.head(hidden)
        out = self.softmax(out)
        return hidden, out


class Trainer:
    def __init__(self):
        self.model = Model()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.loader = torch.utils.data.DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)

    def compute_loss(self, out, y):
        return self.criterion(out.view(-1, 3), y.view(-1))

    def run(self):
        for x, y in self.loader:
            hidden, out = self.model(x)
            loss = self.compute_loss(out, y) + 0.01 * hidden.pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer().run()
