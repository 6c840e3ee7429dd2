"""Each way to do it right."""

import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train_loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)
val_loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)


def run_epoch(model, loader, optimizer=None):
    """One epoch of either kind."""
    model.train(optimizer is not None)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def accuracy(model, loader):
    hits = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
    return hits


@torch.no_grad()
def validate(model):
    was_training = model.training
    model.eval()
    result = accuracy(model, val_loader)
    model.train(was_training)
    return result


for epoch in range(5):
    net.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    validate(net)
    run_epoch(net, train_loader, optimizer)
    with torch.no_grad():
        run_epoch(net, val_loader)

net.eval()
with torch.inference_mode():
    print(accuracy(net, val_loader))
