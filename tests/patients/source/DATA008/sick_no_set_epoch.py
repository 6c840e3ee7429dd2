import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def train_one_epoch(model, train_loader, optimizer):
    for x in train_loader:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()


def main():
    torch.distributed.init_process_group("nccl")
    train_set = torch.randn(1000, 8)
    train_sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=16, sampler=train_sampler)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(20):
        # 没有 set_epoch
        train_one_epoch(model, train_loader, optimizer)


main()
