"""Old style: the batches go to the GPU by their type."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
opt = parser.parse_args()
use_gpu = torch.cuda.is_available()
Floats = torch.cuda.FloatTensor if use_gpu else torch.FloatTensor

critic = nn.Sequential(nn.Linear(opt.width, 128), nn.ReLU(), nn.Linear(128, 1))
if use_gpu:
    critic.cuda()
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
loader = DataLoader(TensorDataset(torch.rand(1000, opt.width)), batch_size=50)

for epoch in range(20):
    for (rows,) in loader:
        real = rows.type(Floats)  # 类型决定设备
        noise = Floats(rows.shape[0], opt.width).normal_()
        optimizer.zero_grad()
        (critic(noise).mean() - critic(real).mean()).backward()
        optimizer.step()
