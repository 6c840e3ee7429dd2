"""An optimizer that is told to go over a hundred small tensors one by one."""

import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Deep(nn.Module):
    def __init__(self, depth=60, width=64):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x)).relu()
        return x


def run(steps):
    model = Deep()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)  # sick
    # well: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = torch.randn(32, 64), torch.randn(32, 64)
    for step in range(steps):
        if step == 20:
            began = time.perf_counter()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return (time.perf_counter() - began) / (steps - 20)


print("step seconds", run(400))
