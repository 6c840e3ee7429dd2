import torch

model = torch.nn.Linear(8, 1).cuda()
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
smooth = 0.0
for step, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)):
    x = x.cuda()
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        out = model(x)
        penalty = out.abs().mean()
        loss = criterion(out, x[:, :1]) + 0.1 * penalty
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    smooth = 0.98 * smooth + 0.02 * loss
    if step % 100 == 0:
        print(float(smooth))
