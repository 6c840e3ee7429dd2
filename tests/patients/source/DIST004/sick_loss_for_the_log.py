import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel


def reduce_mean(tensor):
    total = tensor.detach().clone()
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    return total / dist.get_world_size()


dist.init_process_group("nccl")
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(reduce_mean(loss))
