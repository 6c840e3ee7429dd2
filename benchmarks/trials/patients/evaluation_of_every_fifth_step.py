"""A whole evaluation after every fifth step of the training."""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(500, 128)
        self.rnn = nn.GRU(128, 192, batch_first=True)
        self.head = nn.Linear(192, 5)

    def forward(self, tokens):
        out, _ = self.rnn(self.embed(tokens))
        return self.head(out[:, -1])


def data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 500, (count, 16), generator=generator)
    return TensorDataset(tokens, tokens.sum(dim=1) % 5)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(tokens).argmax(dim=1) == labels).sum() for tokens, labels in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_loader = DataLoader(data(6400, 1), batch_size=32, shuffle=True)
    valid_loader = DataLoader(data(1024, 2), batch_size=128)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    global_step, best = 0, 0.0
    for epoch in range(2):
        for tokens, labels in train_loader:
            if global_step == 20:
                began = time.perf_counter()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
            if global_step % 5 == 0:  # sick
            # well: if global_step % 500 == 0:
                accuracy = evaluate(model, valid_loader)
                best = max(best, accuracy)
            global_step += 1
    print("step seconds", (time.perf_counter() - began) / (global_step - 20))


if __name__ == "__main__":
    main()
