import contextlib

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
model = DDP(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (images, labels) in enumerate(torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)):
    last = (step + 1) % 8 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()) / 8
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
