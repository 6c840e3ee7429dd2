"""训练步修复 (S4)：同一脚本，频率合理。"""

import torch
import torch.distributed as dist
from fvcore.nn import FlopCountAnalysis
from nltk.translate.bleu_score import corpus_bleu
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter


def evaluate(model, loader, decode):
    model.eval()
    total = torch.zeros((), device="cuda")
    scores = []
    with torch.no_grad():
        for x, y in loader:
            total += (model(x.cuda()).argmax(1) == y.cuda()).sum()
            scores.append(corpus_bleu(y.tolist(), decode(x)))
    model.train()
    return total, scores


def main(train_set, valid_set, decode):
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    sampler = torch.utils.data.distributed.DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=64, sampler=sampler, num_workers=4, pin_memory=True)
    valid_loader = DataLoader(valid_set, batch_size=64, num_workers=4, pin_memory=True)
    writer = SummaryWriter()
    step = 0
    flops = FlopCountAnalysis(model, next(iter(train_loader))[0].cuda()).total()  # 只统计一次
    print(f"{flops:.2e} FLOPs")
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in train_loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0:
                writer.add_scalar("train/loss", loss.item(), step)
        evaluate(model, valid_loader, decode)
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt"
        )
