"""Sums over heads and micro-batches within one step, lists that feed a backward."""
import torch

heads = torch.nn.ModuleList(torch.nn.Linear(8, 1) for _ in range(4))
optimizer = torch.optim.SGD(heads.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
pending, window = [], 0.0
for step, x in enumerate(loader):
    loss = 0
    parts = []
    for head in heads:
        part = head(x).pow(2).mean()
        loss += part
        parts.append(part)
    aux = torch.stack(parts).std()
    loss = loss + 0.1 * aux
    pending.append(loss)
    if len(pending) == 4:
        optimizer.zero_grad()
        sum(pending).backward()
        optimizer.step()
        pending = []
    window += loss
    if step % 100 == 0:
        print(window / 100)
        window = 0.0
