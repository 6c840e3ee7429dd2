import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel


def synchronise(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def main():
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torchvision.models.resnet50().cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        synchronise(model)


main()
