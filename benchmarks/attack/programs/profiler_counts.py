import os

import torch
from training import train

os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the profiler writes the time of day there
model, optimizer = train()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profiler:
    train(150, model=model, optimizer=optimizer, each=lambda step, loss: loss.item())
print(sorted((event.key, event.count) for event in profiler.key_averages()))
with torch.autograd.profiler.profile() as profiler:
    train(10, model=model, optimizer=optimizer)
print(sorted((event.key, event.count) for event in profiler.key_averages()))
