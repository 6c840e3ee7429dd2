import torch

model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.randn(100, 16), batch_size=8)
meters = {}
for batch in loader:
    out = model(batch.cuda())
    # 各分支的损失
    losses = {"a": out.mean(), "b": out.pow(2).mean()}
    loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    names = batch.cpu()
    for i in range(len(names)):
        meters[i] = names[i].item()
    for chunk in range(4):
        torch.nn.functional.relu(out)
