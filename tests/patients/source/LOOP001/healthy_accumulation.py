import torch

ACCUMULATE = 4
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
optimizer.zero_grad()
for step, x in enumerate(loader):
    loss = model(x).pow(2).mean() / ACCUMULATE
    loss.backward()
    if (step + 1) % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
