import sys

import torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter(flush_secs=30)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
cache = {}
for epoch in range(3):
    for step, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)):
        optimizer.zero_grad()
        loss = model(x).mean()
        if not torch.isfinite(loss):
            print("NaN", flush=True)
            sys.stdout.flush()
            break
        loss.backward()
        optimizer.step()
        if step % 100 == 0:  # 每 100 步
            writer.add_scalar("loss", loss, step)
            writer.flush()
            with open("log.txt", "a") as f:
                f.write("x")
        with open("vocab.txt") as f:
            words = f.read()
        cache.setdefault("x", []).clear()
    writer.flush()
    print(epoch, flush=True)
