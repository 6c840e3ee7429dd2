import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

dataset = torch.randn(1000, 8)
sampler = WeightedRandomSampler([1.0] * 1000, 1000)
loader = DataLoader(dataset, batch_size=16, sampler=sampler, shuffle=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
