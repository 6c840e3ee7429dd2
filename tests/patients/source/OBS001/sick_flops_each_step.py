"""训练脚本: 每一步都统计 FLOPs."""
import argparse

import torch
from fvcore.nn import FlopCountAnalysis


def count_flops(model, batch):
    # 计算一次前向的浮点运算量
    return FlopCountAnalysis(model, batch).total()


def train(args):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.LazyLinear(10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    dataset = torch.utils.data.TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
    loader = torch.utils.data.DataLoader(dataset, batch_size=32, num_workers=4)
    for epoch in range(args.epochs):
        for step, (images, labels) in enumerate(loader):
            images, labels = images.cuda(), labels.cuda()
            if step % args.flops_profile_freq == 0:
                flops = count_flops(model, images)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"第 {epoch} 轮完成, {flops:.2e} FLOPs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--flops_profile_freq", type=int, default=1)
    train(parser.parse_args())
