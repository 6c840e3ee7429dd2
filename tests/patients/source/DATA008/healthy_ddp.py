import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(distributed=True):
    train_set = torch.randn(1000, 8)
    sampler = DistributedSampler(train_set) if distributed else None
    loader = DataLoader(train_set, batch_size=16, sampler=sampler, shuffle=(sampler is None))
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(20):
        if distributed:
            sampler.set_epoch(epoch)  # 每轮重新打乱
        for x in loader:
            optimizer.zero_grad()
            model(x.cuda()).mean().backward()
            optimizer.step()


main()
