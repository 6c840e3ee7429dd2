"""Inference on the CPU: no training loop."""

import torch

model = torch.nn.Linear(8, 2).eval()
with torch.no_grad():
    for _ in range(10):
        print(model(torch.randn(1, 8)))
