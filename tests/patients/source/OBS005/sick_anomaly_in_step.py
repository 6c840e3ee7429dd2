"""异常检测在每一步都打开."""
from torch import autograd, nn, optim
from torch.utils.data import DataLoader
import torch


class Runner:
    def __init__(self, net):
        self.net = net
        self.opt = optim.AdamW(net.parameters())

    def step(self, x):
        with autograd.detect_anomaly():  # 调试用
            self.opt.zero_grad()
            loss = self.net(x).square().mean()
            loss.backward()
        self.opt.step()
        return loss

    def run(self, loader):
        for x in loader:
            self.step(x)


if __name__ == "__main__":
    Runner(nn.Linear(8, 1)).run(DataLoader(torch.randn(100, 8)))
