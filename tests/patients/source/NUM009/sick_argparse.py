import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-9)
args = parser.parse_args()
net = torch.nn.Linear(8, 8)
opt = torch.optim.SGD(net.parameters(), args.lr)
