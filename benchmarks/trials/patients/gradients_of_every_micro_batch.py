"""Two ranks that exchange gradients after every micro-batch of an accumulated step."""

import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 8


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 4, (4096,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(
        nn.Sequential(nn.Linear(64, 1200), nn.ReLU(), nn.Linear(1200, 1200), nn.ReLU(), nn.Linear(1200, 4))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            if epoch == 0 and i == 4 * ACCUMULATE:
                began = time.perf_counter()
            loss = nn.functional.cross_entropy(model(x), y) / ACCUMULATE  # sick
            loss.backward()  # sick
            # well: with contextlib.nullcontext() if (i + 1) % ACCUMULATE == 0 else model.no_sync():
            # well:     loss = nn.functional.cross_entropy(model(x), y) / ACCUMULATE
            # well:     loss.backward()
            if (i + 1) % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
                steps += 1
    if dist.get_rank() == 0:
        print("step seconds", (time.perf_counter() - began) / (steps - 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
