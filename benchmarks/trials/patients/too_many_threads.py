"""Far more threads inside each operation than the machine has CPUs."""

import os
import time

import torch
from torch import nn

torch.set_num_threads(16 * (os.cpu_count() or 1))  # sick
# well: torch.set_num_threads(len(os.sched_getaffinity(0)))
torch.manual_seed(0)

model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
    nn.Linear(512, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
images, labels = torch.randn(1024, 3, 32, 32), torch.randint(0, 10, (1024,))
step = 0
for epoch in range(12):
    for at in range(0, 1024, 64):
        if step == 16:
            began = time.perf_counter()
        loss = nn.functional.cross_entropy(model(images[at : at + 64]), labels[at : at + 64])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
print("step seconds", (time.perf_counter() - began) / (step - 16))
