"""An iterable data set that walks over what is in memory: its loop is the iteration itself."""

import torch
from torch.utils.data import DataLoader, IterableDataset


class Replay(IterableDataset):
    def __init__(self, states, rewards):
        self.states = states
        self.rewards = rewards

    def __iter__(self):
        order = torch.randperm(len(self.states))
        for i in range(len(order)):
            yield self.states[order[i]], self.rewards[order[i]]


loader = DataLoader(Replay(torch.randn(1000, 4), torch.randn(1000, 1)), batch_size=32)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
for state, reward in loader:
    loss = (model(state) - reward).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
