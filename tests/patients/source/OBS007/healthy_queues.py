import torch

from mybuffers import GradientBuffer

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
buckets = GradientBuffer(model)
for epoch in range(500):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).mean()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item(), flush=True)
for x in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4):
    model(x).mean().backward()
    buckets.flush()
    optimizer.step()
    optimizer.zero_grad()
    print("step", flush=False)
