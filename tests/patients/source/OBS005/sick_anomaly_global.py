import torch

torch.autograd.set_detect_anomaly(True)

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for x in loader:
    optimizer.zero_grad()
    loss = model(x.cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
