import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
files = ["a", "b", "c", "d"][rank::world_size]  # 按 rank 切分
loader = DataLoader(files, batch_size=1, shuffle=True)
model = DDP(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
