"""旧接口：memory_cached、clip_grad_norm、autocast 的旧路径。"""

import torch
from torch.cuda.amp import autocast
from torch.nn.utils import clip_grad_norm

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    with autocast():
        loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
    if step % 50 == 0:
        print(torch.cuda.memory_cached())
