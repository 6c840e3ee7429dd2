import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, tokens in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    features = model(images.cuda())
    everyone = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, features)
    logits = features @ torch.cat(everyone).t()
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(features), device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
