import torch
from torch.utils.data import DataLoader

split = "val"
train_loader = DataLoader(torch.randn(1000, 8), batch_size=4, shuffle=True, drop_last=True)
val_loader = DataLoader(torch.randn(100, 8), batch_size=4, shuffle=(split == "train"))
probe_loader = DataLoader(torch.randn(100, 8), batch_size=4, shuffle=True)
test_loader = DataLoader(torch.randn(100, 8), batch_size=4, shuffle=True)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x in train_loader:
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for x in val_loader:
            model(x)
        for index, x in enumerate(probe_loader):  # 随机抽样的几个批次
            model(x)
            if index == 10:
                break
images = next(iter(test_loader))
