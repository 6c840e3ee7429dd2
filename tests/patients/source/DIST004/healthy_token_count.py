import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
model = DistributedDataParallel(torchvision.models.vit_b_16().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    count = torch.tensor(len(labels), device="cuda")
    dist.all_reduce(count)
    total = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda(), reduction="sum")
    loss = total * dist.get_world_size() / count
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
