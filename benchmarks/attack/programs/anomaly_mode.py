import traceback

import torch
from training import train

with torch.autograd.set_detect_anomaly(True):
    train(5)
    x = torch.zeros(2, requires_grad=True)
    y = (x / 0).sqrt().sum()
    try:
        (y * 0).backward()
    except RuntimeError:
        traceback.print_exc()
print(torch.is_anomaly_enabled())
