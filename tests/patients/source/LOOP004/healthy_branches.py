"""Mixed precision or not: each branch clips where it should."""

import argparse

import torch
from torch import nn
from torch.cuda.amp import GradScaler


def train_one_epoch(model, loader, optimizer, scaler, clip_grad):
    model.train()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            if clip_grad is not None:
                # 先还原梯度,再裁剪
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), clip_grad)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if clip_grad is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip_grad)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--clip-grad", type=float)
    args = parser.parse_args()
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(9, 4), torch.randn(9, 1)))
    for epoch in range(3):
        train_one_epoch(model, loader, optimizer, GradScaler() if args.amp else None, args.clip_grad)


if __name__ == "__main__":
    main()
