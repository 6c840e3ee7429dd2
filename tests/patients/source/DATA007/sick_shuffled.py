import torch
from torch.utils.data import DataLoader

train_loader = DataLoader(torch.randn(1000, 8), batch_size=4, shuffle=True)
test_loader = DataLoader(torch.randn(100, 8), batch_size=4, shuffle=True)  # 测试集也打乱
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x in train_loader:
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x in test_loader:
            total += model(x).mean()
    model.train()
