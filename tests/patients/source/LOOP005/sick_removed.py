"""Calls and arguments that newer releases no longer have."""

import torch
# sick_removed_module + from torch._six import inf
# healthy_guarded_import + try:
    # healthy_guarded_import + from torch._six import inf
# healthy_guarded_import + except ImportError:
    # healthy_guarded_import + from math import inf
from torch.optim.lr_scheduler import ReduceLROnPlateau

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = ReduceLROnPlateau(optimizer, patience=3, verbose=True)
# healthy_guarded_import: scheduler = ReduceLROnPlateau(optimizer, patience=3)
values, vectors = torch.symeig(torch.eye(4), eigenvectors=True)
# healthy_guarded_import: values, vectors = torch.linalg.eigh(torch.eye(4))
best = float("inf")
# sick_removed_module: best = inf
# healthy_guarded_import: best = inf
for step in range(10):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(loss)
