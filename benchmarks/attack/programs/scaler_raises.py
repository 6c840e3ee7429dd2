import traceback

import torch
from training import F, data, net

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
x, y = data(8).tensors
for step in range(30):
    optimizer.zero_grad()
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
print(scaler.get_scale(), scaler.state_dict())
try:
    scaler.step(optimizer)
    scaler.step(optimizer)
except (RuntimeError, AssertionError):
    traceback.print_exc()
scaler.unscale_(optimizer)
scaler.unscale_(optimizer)
