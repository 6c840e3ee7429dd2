"""What most of the programs share: a small training on the CPU, the same in every run."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


def data(rows=64):
    return TensorDataset(torch.randn(rows, 8), torch.randint(0, 3, (rows,)))


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def train(steps=40, model=None, optimizer=None, each=None):
    """Train; `each(step, loss)` is called in every step."""
    model = model if model is not None else net()
    optimizer = optimizer if optimizer is not None else torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data(8 * steps), batch_size=8)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if each is not None:
            each(step, loss)
    return model, optimizer
