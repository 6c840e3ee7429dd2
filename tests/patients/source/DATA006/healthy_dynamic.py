import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoTokenizer, DataCollatorWithPadding

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")


class Short(Dataset):
    def __init__(self, rows, max_len=64):
        self.rows, self.max_len = rows, max_len

    def __getitem__(self, index):
        return self.rows[index] + [0] * (self.max_len - len(self.rows[index]))


def encode(rows):
    return tokenizer(rows["text"], truncation=True, max_length=512)


def encode_short(rows):
    return tokenizer(rows["text"], padding="max_length", truncation=True, max_length=64)  # 短


def predict(text):
    return tokenizer(text, padding="max_length", max_length=512)


collate = DataCollatorWithPadding(tokenizer, padding="longest", pad_to_multiple_of=8)
model = torch.nn.Embedding(1000, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    rows = [encode({"text": []}), encode_short({"text": []}), predict("a")]
    for batch in DataLoader(Short(rows), batch_size=4, collate_fn=collate):
        model(batch["input_ids"]).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
