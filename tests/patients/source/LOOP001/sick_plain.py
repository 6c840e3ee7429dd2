import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
for epoch in range(3):
    for x in loader:
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
