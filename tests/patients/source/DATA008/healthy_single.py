import torch
from torch.utils.data import DataLoader, RandomSampler

dataset = torch.randn(1000, 8)
loader = DataLoader(dataset, batch_size=16, sampler=RandomSampler(dataset), shuffle=False)
model = torch.nn.DataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x in loader:  # 单进程
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
