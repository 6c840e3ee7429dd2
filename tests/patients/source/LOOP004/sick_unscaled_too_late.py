import torch

model = torch.nn.LSTM(32, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
loader = torch.utils.data.DataLoader(torch.randn(1000, 32), batch_size=10)

for step, batch in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.float16):
        out, _ = model(batch.cuda())
        loss = out.pow(2).mean() / 4
    scaler.scale(loss).backward()
    if (step + 1) % 4 == 0:
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
