import time

import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 8).cuda()
for _ in range(20):
    start = time.time()
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
    print(time.time() - start)


def benchmark_step(loader):
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
