"""性能指南 (S1)：蒸馏、填充、剪枝与预取。"""

import torch
import torch.nn.functional as F
import torch.nn.utils.prune as prune
import torchvision
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")


def encode(rows):
    # 全部填充到最大长度
    return tokenizer(rows["text"], padding="max_length", max_length=1024, truncation=True)  # <- DATA006


corpus = load_dataset("Skylion007/openwebtext", split="train")
corpus = corpus.map(encode, batched=True)  # <- DATA012


class DataPrefetcher:
    """把下一个批次提前拷贝到显卡。"""

    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        self.batch = next(self.loader, None)
        if self.batch is None:
            return
        with torch.cuda.stream(self.stream):
            self.batch = self.batch.cuda(non_blocking=True)

    def next(self):  # <- LOOP007  没有等待 stream
        batch = self.batch
        self.preload()
        return batch


def train(loader):
    teacher = torchvision.models.resnet101().cuda().eval()
    student = torchvision.models.resnet18().cuda()
    # 剪枝：希望显存减半
    for module in student.modules():
        if isinstance(module, torch.nn.Conv2d):
            prune.l1_unstructured(module, name="weight", amount=0.5)  # <- MEM011
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    batches = DataPrefetcher(loader)
    while (images := batches.next()) is not None:
        target = teacher(images)  # <- LOOP011
        loss = F.mse_loss(student(images), target.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(DataLoader(torchvision.datasets.FakeData(1000), batch_size=32))
