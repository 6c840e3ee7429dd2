"""Anomaly mode of the last hunt for a NaN, never switched off."""

import time

import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)  # sick


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gates = nn.Linear(2 * width, 2 * width)

    def forward(self, x, state):
        update, fresh = self.gates(torch.cat([x, state], dim=1)).chunk(2, dim=1)
        update = update.sigmoid()
        return update * state + (1 - update) * fresh.tanh()


def main(steps=300):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cell, head = Cell(64), nn.Linear(64, 1)
    optimizer = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], lr=1e-3)
    series = torch.randn(steps, 24, 32, 64)
    for step in range(steps):
        if step == 20:
            began = time.perf_counter()
        state = torch.zeros(32, 64)
        for x in series[step]:
            state = cell(x, state)
        loss = (head(state).squeeze(1) - series[step, :, :, 0].mean(dim=0)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("step seconds", (time.perf_counter() - began) / (steps - 20))


if __name__ == "__main__":
    main()
