"""A benchmark, not a training: twenty steps under the profiler."""
import torch
from torch.profiler import ProfilerActivity, profile, record_function

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 1024, device="cuda")

with profile(activities=[ProfilerActivity.CUDA]) as prof:
    for _ in range(20):
        with record_function("step"):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
print(prof.key_averages().table())
