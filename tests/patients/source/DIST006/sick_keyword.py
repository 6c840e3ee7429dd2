import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(init_method="env://", backend="gloo")
# healthy_nccl: dist.init_process_group(backend="nccl")
# healthy_nccl + objects = dist.new_group(backend="gloo")  # 传对象用
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
