"""GPU 资源指南 (S3)：同一脚本，已修复。"""

import torch
from torch import nn
from torch.utils.data import DataLoader


class AsyncLoader:
    def __init__(self, loader):
        self.iterator = iter(loader)
        self.stream = torch.cuda.Stream()
        self.following = self.preload()

    def preload(self):
        batch = next(self.iterator, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.stream):
            return batch.cuda(non_blocking=True)

    def __iter__(self):
        return self

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.following
        if batch is None:
            raise StopIteration
        batch.record_stream(torch.cuda.current_stream())
        self.following = self.preload()
        return batch


def memory():
    return torch.cuda.memory_reserved() / 2**30


model = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=4, pin_memory=True)
for rows in AsyncLoader(loader):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(rows).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(memory())
