"""Between phases, outside of the loop."""

import gc

import torch

torch.cuda.empty_cache()
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
del model
gc.collect()
torch.cuda.empty_cache()
