"""The names of today."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


from torch.utils.checkpoint import checkpoint

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
scaler = torch.amp.GradScaler("cuda")
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,))), pin_memory=True)
for x, y in loader:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        out = checkpoint(model, x.to(device), use_reentrant=False)
        loss = nn.functional.cross_entropy(out, y.to(device), reduction="mean")
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
scheduler.step()
print(torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved())
