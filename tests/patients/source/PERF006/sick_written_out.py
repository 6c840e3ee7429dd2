import math

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    """手写注意力。"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        weights = torch.softmax(scores, dim=-1)
        y = weights @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[SelfAttention(512, 8) for _ in range(6)])

    def forward(self, x):
        return self.layers(x)


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x in torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=8):
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
