import argparse
import contextlib

import torch
from torch.profiler import profile

parser = argparse.ArgumentParser()
parser.add_argument("--profile", action="store_true")
args = parser.parse_args()

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100000, 8), batch_size=16, num_workers=4)

context = profile(record_shapes=True) if args.profile else contextlib.nullcontext()
with context:
    for x in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
