"""混合精度训练:梯度还带着缩放系数就被裁剪。"""

import argparse

import torch
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast


class Trainer:
    """一个简单的训练器。"""

    def __init__(self, model, loader, args):
        self.model = model.cuda()
        self.loader = loader
        self.args = args
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        self.scaler = GradScaler()

    def step(self, images, labels):
        with autocast():
            loss = F.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        # 裁剪梯度,防止爆炸
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def fit(self):
        for epoch in range(self.args.epochs):
            for images, labels in self.loader:
                self.step(images.cuda(), labels.cuda())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=90)
    args = parser.parse_args()
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64).long())
    Trainer(torch.nn.Linear(8, 2), torch.utils.data.DataLoader(data, batch_size=8), args).fit()


if __name__ == "__main__":
    main()
