"""Everything is read once, in __init__; an item is an index into it, and the collate function pads."""

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __init__(self, path):
        with open(path) as stream:
            lines = stream.read().splitlines()
        self.rows = [np.fromstring(line, dtype=np.int64, sep=" ") for line in lines]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = torch.from_numpy(self.rows[index])
        return row[:-1], row[1:]


def pad(batch):
    xs = [x for x, _ in batch]
    ys = []
    for _, y in batch:
        ys.append(y)
    return pad_sequence(xs, batch_first=True), pad_sequence(ys, batch_first=True)


def main():
    device = "cuda"
    loader = DataLoader(Tokens("tokens.txt"), batch_size=32, collate_fn=pad, pin_memory=True)
    model = torch.nn.Embedding(1000, 1000).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
