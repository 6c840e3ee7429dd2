import os

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
log = open("train.log", "w")
for step, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    log.write(f"{step} {loss.item()}\n")
    log.flush()
    os.fsync(log.fileno())  # 立即写盘
