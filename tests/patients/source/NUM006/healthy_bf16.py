import torch
from torch.utils.data import DataLoader

dtype = torch.bfloat16
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ctx = torch.autocast(device_type="cuda", dtype=dtype)
for x, y in DataLoader([]):
    optimizer.zero_grad()
    with ctx:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
