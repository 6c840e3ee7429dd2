import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accumulation_steps = 8
model = nn.Linear(32, 10)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(800, 32), torch.randint(0, 10, (800,))), batch_size=4)

for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        out = model(x)
        loss = criterion(out, y)
        loss.backward()  # 梯度累积
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
