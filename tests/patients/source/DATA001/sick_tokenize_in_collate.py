"""每个批次都在主进程里分词。"""

import torch
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-chinese")


def collate(batch):
    # 在整理批次时才分词，GPU 只能等待
    texts = [item["text"] for item in batch]
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    encoded["labels"] = torch.tensor([item["label"] for item in batch])
    return encoded


def build_loader(samples):
    return DataLoader(samples, batch_size=16, shuffle=True, collate_fn=collate, num_workers=0, pin_memory=True)


class Runner:
    def __init__(self, samples):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = AutoModelForSequenceClassification.from_pretrained("bert-base-chinese").to(self.device)
        self.optimizer = AdamW(self.model.parameters(), lr=2e-5)
        self.train_loader = build_loader(samples)

    def fit(self, epochs):
        for _ in range(epochs):
            for batch in self.train_loader:
                batch = {key: value.to(self.device, non_blocking=True) for key, value in batch.items()}
                loss = self.model(**batch).loss
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()


if __name__ == "__main__":
    Runner([{"text": "很好", "label": 1}, {"text": "不好", "label": 0}] * 512).fit(3)
