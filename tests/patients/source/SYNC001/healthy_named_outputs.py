"""Entries of a dict of outputs are chosen by their names: no value is read."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.boxes, self.classes = nn.Linear(64, 4), nn.Linear(64, 91)

    def forward(self, x):
        return {"boxes": self.boxes(x), "classes": self.classes(x), "hidden": x}


net = Heads().cuda()
optimizer = torch.optim.AdamW(net.parameters())
for rows in DataLoader(torch.rand(1000, 64), batch_size=100):
    outputs = net(rows.cuda(non_blocking=True))
    wanted = {name: value for name, value in outputs.items() if name != "hidden"}
    loss = sum(value.square().mean() for value in wanted.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
