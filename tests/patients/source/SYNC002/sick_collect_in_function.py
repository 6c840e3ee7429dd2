"""垃圾回收藏在每一步都调用的函数里。"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


import gc


def tidy():
    gc.collect()
    torch.cuda.empty_cache()


def train(model, loader, optimizer):
    for batch, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
        tidy()


model = nn.Linear(8, 2).cuda()
data = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,))), pin_memory=True)
for epoch in range(3):
    train(model, data, torch.optim.SGD(model.parameters(), lr=0.1))
