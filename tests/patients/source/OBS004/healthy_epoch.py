import argparse

import torch


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = sum(model(x).mean() for x in loader)
    for x in loader:
        total += model(x).mean()
    model.train()
    return total


parser = argparse.ArgumentParser()
parser.add_argument("--eval-interval", type=int, default=500)
parser.add_argument("--debug", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
val_loader = torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=4)
for epoch in range(5):
    for step, x in enumerate(train_loader):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        if step % args.eval_interval == 0:
            validate(model, val_loader)
        if args.debug:
            validate(model, val_loader)  # 调试时才跑
    validate(model, val_loader)
