import sys
import traceback
import warnings

import torch
from training import F, data, net, train

train()
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
x, y = data(8).tensors
calls = []


def closure():
    frame = sys._getframe(1)
    calls.append(frame.f_back.f_code.co_name if frame.f_code.co_name == "hooked" else frame.f_code.co_name)
    warnings.warn("from the closure", stacklevel=2)
    if len(calls) == 3:
        raise OSError("in the closure")
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss


for _ in range(3):
    try:
        print(optimizer.step(closure).item())
    except OSError:
        traceback.print_exc()
print(calls)
