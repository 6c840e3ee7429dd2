import torch
from torch.utils.data import DataLoader

teacher = torch.nn.Linear(8, 8).cuda().half()  # 教师网络只做推理
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in DataLoader([]):
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
        target = teacher(x.half())
    loss = torch.nn.functional.mse_loss(model(x), target.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.autocast("cuda"):
    model(torch.zeros(1, 8).cuda())
