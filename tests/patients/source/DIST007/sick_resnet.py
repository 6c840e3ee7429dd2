import os

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
model = torchvision.models.resnet50().cuda(rank)
model = DDP(model, device_ids=[rank], find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda(rank)), labels.cuda(rank))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
