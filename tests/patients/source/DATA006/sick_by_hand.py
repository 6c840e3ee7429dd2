import torch
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    def __init__(self, rows, max_len=512, pad=0):
        self.rows = rows
        self.max_len = max_len
        self.pad = pad

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids = self.rows[index][: self.max_len]
        ids = ids + [self.pad] * (self.max_len - len(ids))
        return torch.tensor(ids)


model = torch.nn.Embedding(1000, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for batch in DataLoader(Sequences([[1, 2]]), batch_size=4):
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
