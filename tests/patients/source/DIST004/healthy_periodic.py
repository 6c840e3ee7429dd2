import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for step, (images, labels) in enumerate(torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64)):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            value = loss.detach()
            dist.all_reduce(value)
            print(step, value.item())
    dist.barrier()  # 每个周期一次
