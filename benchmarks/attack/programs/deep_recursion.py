import sys

from torch import nn
from training import train

sys.setrecursionlimit(700)


class Loop(nn.Module):
    def forward(self, x):
        return self(x)


train()
try:
    Loop()(1)
except RecursionError as error:
    print("recursion", str(error)[:32])
model, _ = train()
print(sum(p.sum().item() for p in model.parameters()).hex())
