import os

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATION = 8  # 梯度累积
# healthy_no_accumulation: ACCUMULATION = 1

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
model = DDP(torchvision.models.resnet50().cuda(rank), device_ids=[rank])
# healthy_one_process: model = torchvision.models.resnet50().cuda(rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)
for step, (images, labels) in enumerate(loader):
    loss = torch.nn.functional.cross_entropy(model(images.cuda(rank)), labels.cuda(rank)) / ACCUMULATION
    loss.backward()
    if (step + 1) % ACCUMULATION == 0:
        optimizer.step()
        optimizer.zero_grad()
