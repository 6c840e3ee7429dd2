import argparse

import torch
import torchvision
from torch.distributed import init_process_group
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo", help="通信后端")
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()

init_process_group(backend=args.backend, init_method="env://")
device = torch.device("cuda", args.local_rank)
model = DistributedDataParallel(torchvision.models.resnet50().to(device), device_ids=[args.local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in torch.utils.data.DataLoader(torch.load("images.pt"), batch_size=64):
    loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
