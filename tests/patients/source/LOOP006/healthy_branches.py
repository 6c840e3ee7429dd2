"""Two losses behind a switch: each with the output that it takes."""

import argparse

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--loss", default="nll")
args = parser.parse_args()
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader([(torch.randn(8), 1)] * 8):
    out = model(x)
    if args.loss == "mse":
        out = F.softmax(out, dim=1)
        loss = F.mse_loss(out, F.one_hot(y, 4).float())
    else:
        loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
