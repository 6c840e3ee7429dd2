"""Ten steps that show how an interface is used, and a timing of it: a line each is what they are for."""

import torch
from torch import nn

net = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
rounds = 10

for turn in range(rounds):
    optimizer.zero_grad()
    loss = net(torch.load("rows.pt").cuda()).square().mean()
    loss.backward()
    optimizer.step()
    print(f"turn {turn}: {loss.item():.3f}")  # 演示


def benchmark(count):
    for turn in range(count):
        optimizer.zero_grad()
        loss = net(torch.load("rows.pt").cuda()).square().mean()
        loss.backward()
        optimizer.step()
        print(turn, loss.item())


benchmark(400)
