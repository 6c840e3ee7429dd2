"""GPU 资源指南 (S3)：过时的接口与手写的预取。"""

import torch
from torch import nn
from torch.utils.data import DataLoader


class AsyncLoader:
    def __init__(self, loader):
        self.iterator = iter(loader)
        self.stream = torch.cuda.Stream()

    def preload(self):
        with torch.cuda.stream(self.stream):
            self.batch = next(self.iterator).cuda(non_blocking=True)

    def __iter__(self):
        return self

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.preload()  # <- LOOP007  preload 没有返回批次


def memory():
    return torch.cuda.memory_cached() / 2**30  # <- LOOP005


model = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.cuda.amp.GradScaler()  # <- LOOP005
loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=4)  # <- DATA004
for rows in AsyncLoader(loader):
    rows = rows.cuda()  # 阻塞拷贝
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(rows).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(memory())
