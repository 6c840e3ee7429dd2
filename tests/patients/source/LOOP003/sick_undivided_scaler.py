"""A trainer class with mixed precision; the micro-batches are not averaged."""

import argparse

import torch
import torch.nn.functional as F
from torch.amp import GradScaler, autocast


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model = torch.nn.Linear(16, 4).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.scaler = GradScaler("cuda")
        self.loader = torch.utils.data.DataLoader([(torch.randn(16), 1)] * 128, batch_size=2)

    def compute_loss(self, batch):
        x, y = batch
        with autocast("cuda"):
            return F.cross_entropy(self.model(x.cuda()), y.cuda())

    def train(self):
        for step, batch in enumerate(self.loader):
            loss = self.compute_loss(batch)
            self.scaler.scale(loss).backward()
            if (step + 1) % self.args.grad_accum == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--grad-accum", type=int, default=4)
    Trainer(parser.parse_args()).train()
