import torch
import torch.nn as nn
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Network(nn.Module):
    """没有分支的网络。"""

    def __init__(self, width=512, depth=6):
        super().__init__()
        self.width = width
        self.stem = nn.Linear(64, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x


def main(rank):
    dist.init_process_group("nccl")
    model = DistributedDataParallel(
        Network().to(rank),
        device_ids=[rank],
        find_unused_parameters=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=64):
        loss = nn.functional.cross_entropy(model(x.to(rank)), y.to(rank))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, nprocs=2)
