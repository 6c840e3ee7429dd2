"""The engine that holds the model goes back to training mode; the forward is called on the model itself."""

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).cuda()
model_engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
loader = DataLoader([(torch.randn(8), 1)] * 64, batch_size=8)


@torch.no_grad()
def test(net):
    net.eval()
    return sum((net(x).argmax(1) == y).sum().item() for x, y in loader)


for epoch in range(10):
    for x, y in loader:
        model_engine.train()  # 引擎切回训练模式
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        model_engine.backward(loss)
        model_engine.step()
    print(epoch, test(model))
