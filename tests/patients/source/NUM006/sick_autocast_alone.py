import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = torch.nn.MSELoss()
loader = DataLoader([])
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):  # 没有 GradScaler
        loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
