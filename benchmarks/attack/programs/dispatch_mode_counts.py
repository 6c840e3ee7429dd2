from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from training import train


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen[str(function)] += 1
        return function(*args, **(kwargs or {}))


model, optimizer = train()
for kind in (torch.optim.SGD, torch.optim.AdamW):
    mode = Count()
    with mode:
        train(60, model=model, optimizer=kind(model.parameters(), lr=0.01), each=lambda step, loss: loss.item())
    print(sorted(mode.seen.items()))
