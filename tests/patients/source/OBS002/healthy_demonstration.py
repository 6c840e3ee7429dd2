"""A timing: a line each is what it is for. 演示"""

import torch
from torch import nn

net = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

def benchmark(count):
    for turn in range(count):
        optimizer.zero_grad()
        loss = net(torch.load("rows.pt").cuda()).square().mean()
        loss.backward()
        optimizer.step()
        print(turn, loss.item())


benchmark(400)
