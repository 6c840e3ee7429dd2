"""The default is 0, and the launch line gives workers."""

import argparse
import os

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index])), 0


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
loader = DataLoader(Photos(["a.png"]), batch_size=8, num_workers=args.workers)
# healthy_unknown_workers: loader = DataLoader(Photos(["a.png"]), batch_size=8, num_workers=min(8, os.cpu_count() - 1))
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
