"""The FLOPs of the model counted anew on every step."""

import time

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

STEPS, WARM = 400, 20


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + self.mix(x)


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(*[Block(96) for _ in range(3)], nn.Linear(96, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randn(64, 16, 24, 96)
flops = 0
# well: with FlopCounterMode(display=False) as counter:
# well:     model(data[0])
# well: flops = counter.get_total_flops()

for step in range(STEPS):
    if step == WARM:
        began = time.perf_counter()
    x = data[step % 64]
    optimizer.zero_grad()
    with FlopCounterMode(display=False) as counter:  # sick
        out = model(x)  # sick
    flops = counter.get_total_flops()  # sick
    # well: out = model(x)
    loss = out.square().mean()
    loss.backward()
    optimizer.step()

seconds = (time.perf_counter() - began) / (STEPS - WARM)
print("step seconds", seconds)
print("GFLOP/s", flops / seconds / 1e9)
