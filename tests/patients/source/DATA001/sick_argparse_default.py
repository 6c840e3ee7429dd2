"""The number of workers is an option whose default is 0."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    def __init__(self, index_file):
        with open(index_file) as stream:
            self.files = stream.read().split()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        signal = np.load(self.files[i])
        spectrum = np.abs(np.fft.rfft(signal))
        return torch.from_numpy(spectrum).float(), torch.tensor(i % 2)


def train(args, model, loader, optimizer, device):
    model.train()
    for epoch in range(args.epochs):
        for features, target in loader:
            features, target = features.to(device), target.to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(features), target)
            loss.backward()
            optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--index", default="files.txt")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="loader processes")
    args = parser.parse_args()
    device = torch.device("cuda")
    dataset = Spectrograms(args.index)
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=args.workers, pin_memory=True)
    model = nn.Sequential(nn.Linear(8001, 256), nn.ReLU(), nn.Linear(256, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train(args, model, loader, optimizer, device)


if __name__ == "__main__":
    main()
