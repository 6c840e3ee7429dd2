import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    # healthy_token_count + count = torch.tensor(len(labels), device="cuda")
    # healthy_token_count + dist.all_reduce(count)
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    # healthy_token_count + loss = loss * dist.get_world_size() / count
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.barrier()  # 等待所有进程
    # healthy_token_count: pass
    # sick_parameters: for parameter in model.parameters():
        # sick_parameters + dist.broadcast(parameter.data, src=0)
