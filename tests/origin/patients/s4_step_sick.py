"""训练步修复 (S4)：观察的代价大于训练本身。"""

import torch
import torch.distributed as dist
from fvcore.nn import FlopCountAnalysis
from nltk.translate.bleu_score import corpus_bleu
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter


def evaluate(model, loader):
    model.eval()
    total = torch.zeros((), device="cuda")
    with torch.no_grad():
        for x, y in loader:
            total += (model(x.cuda()).argmax(1) == y.cuda()).sum()
    model.train()
    return total


def main(train_set, valid_set, decode):
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    sampler = torch.utils.data.distributed.DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=64, sampler=sampler, num_workers=4, pin_memory=True)
    valid_loader = DataLoader(valid_set, batch_size=64, num_workers=4, pin_memory=True)
    writer = SummaryWriter()
    log = open("train.log", "a")
    scores = []
    step = 0
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in train_loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            flops = FlopCountAnalysis(model, x).total()  # <- OBS001  每一步都统计
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            writer.add_scalar("train/loss", loss.item(), step)  # <- OBS002
            log.write(f"{step} {flops}\n")
            log.flush()  # <- OBS007  每一步刷新
            scores.append(corpus_bleu(y.tolist(), decode(x)))  # <- SYNC004
            dist.barrier()  # <- DIST004
            evaluate(model, valid_loader)  # <- OBS004  每一步都验证
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, "last.pt")  # <- OBS003
