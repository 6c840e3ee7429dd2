import argparse

import torch
import wandb
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--watch", action="store_true")
args = parser.parse_args()
wandb.init()
writer = SummaryWriter()
model = torch.nn.Linear(8, 1)
wandb.watch(model)
if args.watch:
    wandb.watch(model, log="all", log_freq=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for step, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            for name, parameter in model.named_parameters():
                writer.add_histogram(name, parameter, step)
        norm = sum(p.grad.norm() for p in model.parameters())
    for name, parameter in model.named_parameters():  # 每轮一次
        writer.add_histogram(name, parameter, epoch)
