import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(1000, 8), batch_size=4, pin_memory=True)
for epoch in range(5):
    for x in loader:
        x = x.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()  # 等待 GPU 完成
