"""性能指南 (S1)：同一脚本，已修复。"""

import torch
import torch.nn.functional as F
import torchvision
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding

tokenizer = AutoTokenizer.from_pretrained("gpt2")
collator = DataCollatorWithPadding(tokenizer)  # 按批次动态填充


def encode(rows):
    return tokenizer(rows["text"], max_length=1024, truncation=True)


corpus = load_dataset("Skylion007/openwebtext", split="train")
corpus = corpus.map(encode, batched=True, num_proc=8)


class DataPrefetcher:
    """把下一个批次提前拷贝到显卡，并等待拷贝完成。"""

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

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        if batch is not None:
            batch.record_stream(torch.cuda.current_stream())
        self.preload()
        return batch


def train(loader):
    teacher = torchvision.models.resnet101().cuda().eval()
    student = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    batches = DataPrefetcher(loader)
    while (images := batches.next()) is not None:
        with torch.no_grad():
            target = teacher(images)
        loss = F.mse_loss(student(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(DataLoader(torchvision.datasets.FakeData(1000), batch_size=32, num_workers=8, pin_memory=True))
